"""Content digests: one way to turn a JSON value or bytes into an identity."""

import hashlib
import json
from typing import Any


def digest_bytes(data: bytes) -> str:
    """Return the sha256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Return `value` as JSON bytes that are equal whenever the values are (sorted keys, no spaces).

    Half a surrogate pair, which a model's reply may contain, is kept; `json.loads` reads it back.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def digest_json(value: Any) -> str:
    """Return the sha256 of the canonical JSON of `value`."""
    return digest_bytes(canonical_json(value))
