"""What a run is given from outside: LangGraph's context. The command line and the server fill it alike."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from graph.config import SearchConfig
from graph.presets import PRESETS


def _documented(schema: dict[str, Any]) -> None:
    """Describe every option, for those who fill in a form; what is given is checked by `graph.presets.resolve`."""
    options = SearchConfig.model_json_schema()["properties"]
    schema["properties"] = {name: facts for name, facts in options.items() if name not in RunContext.model_fields}


class RunContext(BaseModel):
    """What to search for. Read once, when a thread begins; later changes go through the thread's configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    task: str = Field(default="softmax")
    """Task to optimise: the name of a built-in task (`ksearch tasks` lists them)."""
    preset: str = Field(default="default", json_schema_extra={"enum": list(PRESETS)})
    """Preset that the options start from: `default` or `paper`."""
    options: dict[str, Any] = Field(default={}, json_schema_extra=_documented)
    """Options on top of the preset, such as {"max_evaluations": 40, "policy": "puct"}; checked by name and value. A
    run's options replace those of its assistant."""
