"""What goes wrong between us and a model; extends the tree in evaluators/errors.py.

HarnessError
└── ModelFailure   no reply came, whatever was tried: the run stops and can be resumed, with another model if need be

A missing key or an unknown model is a UsageError; a reply that cannot be used is a ReplyError.
"""

import os
import re

from evaluators.errors import HarnessError

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 8
"""Shorter values stand in ordinary words, which would be blotted out for nothing."""
_LONGEST = 600


class ModelFailure(HarnessError):
    """A model gave no reply; the message is one line without secrets."""


def told(text: str) -> str:
    """Return foreign text fit for a message: one line, bounded, and without the secrets of our environment."""
    text = " ".join(redacted(text).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def redacted(text: str) -> str:
    """Return `text` with the value of every environment variable that is named like a secret blotted out."""
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text
