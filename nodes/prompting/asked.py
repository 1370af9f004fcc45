"""What a model would be asked about a task, with the made-up situation of nodes/prompting/example.py."""

from typing import Literal

from evaluators.errors import UsageError
from evaluators.task import Task
from graph.config import SearchConfig
from nodes.models.chat import ChatRequest
from nodes.prompting.coder_prompt import KINDS, Kind, coder_request
from nodes.prompting.example import Example
from nodes.prompting.planner_prompt import planner_request
from prompts.library import load_variant


def asked(task: Task, config: SearchConfig, role: Literal["planner", "coder"], kind: str) -> ChatRequest:
    """Return the question. Raises UsageError for a kind that the role does not have."""
    variant = load_variant(config.prompt_variant)
    example = Example(task, config)
    if role == "planner" and kind in ("first", "revise"):
        first = kind == "first"
        return planner_request(variant, example.first_view() if first else example.later_view(), first=first)
    found: Kind | None = next((known for known in KINDS if known == kind), None)
    if role == "coder" and found is not None:
        return coder_request(variant, example.request(found)).request
    kinds = "first, revise" if role == "planner" else ", ".join(KINDS)
    raise UsageError(f"a {role} has no prompt {kind!r}; choose one of {kinds}")
