"""Whatever a model replies, the planner proposes a valid batch and the coder gives a draft: nothing else comes out."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evaluators.scripted_tasks import scripted_task
from graph.config import SearchConfig
from graph.edits import EditBatch, apply_batch
from nodes.correcting import Refusal
from nodes.llm_coder import _Reader
from nodes.llm_planner import LlmPlanner
from nodes.models.chat import ChatReply
from nodes.models.scripted import ScriptedChat
from nodes.planner_reply import PlannerReply, validate
from prompts.library import load_variant
from tests.contracts import Told

TASK = scripted_task(2, 2)
CONFIG = SearchConfig(task="scripted")
WORDS = st.sampled_from(
    ["root", "n1", "n2", "n9", "", "insert", "update", "prune", "reopen", "pin", "x" * 200, "\x1b["]
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8)
KEYS = st.sampled_from(
    ["kind", "parent", "node", "title", "description", "priority", "difficulty", "predicted_gain", "confidence",
     "reason", "evidence", "status", "id"]
)  # fmt: skip
EDIT = st.dictionaries(KEYS, LEAF, max_size=8) | LEAF
LIKELY = st.fixed_dictionaries(
    {"kind": st.sampled_from(["insert", "update", "prune", "reopen"])},
    optional={
        "parent": WORDS,
        "node": WORDS,
        "title": st.text(max_size=5),
        "description": st.text(max_size=5),
        "priority": st.floats(-1, 2),
        "predicted_gain": st.floats(-1, 2),
        "confidence": st.floats(-1, 2),
        "reason": st.text(max_size=3),
    },
)
DATA = st.fixed_dictionaries({"edits": st.lists(EDIT | LIKELY, max_size=6)}, optional={"summary": LEAF, "reason": LEAF})
PIECES = st.lists(
    st.sampled_from(
        ["```", "```cpp", "````", "`seed.cpp`", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "#include <cstdint>",
         'extern "C" void scripted(const float* x, float* y, int64_t n) {}', "// ksearch: flags = -O2", "{", "}", "\0",
         "prose.", "", "\ud800"]
    ),
    max_size=12,
)  # fmt: skip


def reply(text: str) -> ChatReply:
    return ChatReply(text=text, model="m", finish="stop")


@given(DATA | st.recursive(LEAF, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8))
def test_any_json_is_read_or_refused_with_reasons(data: Any) -> None:
    found = validate(data, beyond_paper=True)
    if isinstance(found, PlannerReply):
        assert found.batch((1,)).origin == "planner"
    else:
        assert found
        assert all(found)


@given(DATA, st.sampled_from(["{}", "```json\n{}\n```", "Here: {} so.", "{}}}"]), st.integers(0, 200))
def test_any_reply_leaves_a_planner_with_a_batch_that_applies(data: Any, shape: str, cut: int) -> None:
    text = shape.replace("{}", json.dumps(data))
    told = Told.begin(TASK, CONFIG, "cpp")
    planner = LlmPlanner(ScriptedChat([]), load_variant("default"))
    for given_text in (text, text[:cut]):
        found = planner._read(told.view(), reply(given_text), 0)
        if isinstance(found, EditBatch):
            assert apply_batch(told.model, found).accepted
        else:
            assert found.errors


@given(PIECES, st.booleans())
def test_any_reply_leaves_a_coder_with_a_program_or_a_reason(pieces: list[str], edits: bool) -> None:
    reader = _Reader(TASK.contracts["cpp"], "cpp", TASK.seed("cpp") if edits else None)
    found = reader.read(reply("\n".join(pieces)), 0)
    if isinstance(found, Refusal):
        assert found.errors
    else:
        assert "scripted" in found.files[found.main_file]
        found.files[found.main_file].encode()
