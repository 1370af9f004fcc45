"""Assistants: the configurations that ksearch comes with, one for each preset and each prompt variant."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid5

from evaluators.digest import digest_json
from evaluators.objective import Record
from graph.presets import PRESETS
from prompts.library import variants

_NAMESPACE = UUID("5e6c3b0a-6f0d-4a52-9f6e-1d2b7c94a3f1")


class Assistant(Record):
    """A named context that a search can be begun with."""

    name: str
    description: str
    context: dict[str, Any]

    @property
    def id(self) -> str:
        """Always the same for a name."""
        return str(uuid5(_NAMESPACE, self.name))

    @property
    def digest(self) -> str:
        """Changes when a version of ksearch changes the assistant."""
        return digest_json(self.model_dump(mode="json"))


def assistants() -> Iterator[Assistant]:
    """Yield the assistants of this version."""
    for preset, options in PRESETS.items():
        told = ", ".join(f"{key} = {value}" for key, value in options.items() if value not in (None, False))
        yield Assistant(name=f"preset {preset}", description=told, context={"preset": preset})
    for variant in variants():
        yield Assistant(
            name=f"prompts {variant.name}",
            description=f"{variant.description} For planners and coders that are models.",
            context={"preset": "default", "options": {"prompt_variant": variant.name}},
        )
