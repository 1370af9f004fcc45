"""What a run is given from outside: LangGraph's context. The command line and the server fill it alike."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class RunContext(BaseModel):
    """What to search for. Read once, when a thread begins; later changes go through the thread's configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    task: str = Field(default="softmax")
    """Task to optimise: the name of a built-in task (`ksearch tasks` lists them)."""
    preset: str = Field(default="default")
    """Preset that the options start from: `default` or `paper`."""
    options: dict[str, Any] = Field(default={})
    """Options on top of the preset, such as {"max_evaluations": 40, "policy": "puct"}; checked by name and value."""
