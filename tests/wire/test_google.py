"""Google's generateContent over real HTTP: what is sent, what is read back."""

import pytest

from evaluators.errors import UsageError
from nodes.models.chat import ChatRequest, Message, Usage
from nodes.models.factory import Chats
from nodes.models.options import ModelOptions
from tests.wire.conftest import GOOGLE_KEY, SERVER_KEY
from tests.wire.stub import Answer, Stub, gemini

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
MODEL = "google_genai:gemini-3-pro-preview"


@pytest.mark.usefixtures("keys")
async def test_a_reply_with_all_its_figures(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(gemini([{"text": "thinking", "thought": True}, {"text": "fo"}, {"text": "ur"}]))
    reply = await chats.get(MODEL).ask(question)
    assert (reply.text, reply.finish, reply.model) == ("four", "stop", "gemini-3-pro-preview")
    assert reply.usage == Usage(input_tokens=800, output_tokens=250, cached_tokens=600, reasoning_tokens=200)
    assert reply.usd == pytest.approx((200 * 2.0 + 600 * 0.20 + 250 * 12.0) / 1e6)
    assert reply.sent["path"].endswith("/models/gemini-3-pro-preview:generateContent")
    assert not {"contents", "systemInstruction"} & set(reply.sent)
    assert stub.last.headers["x-goog-api-key"] == GOOGLE_KEY
    assert stub.last.body["systemInstruction"]["parts"] == [{"text": "You write kernels."}]


@pytest.mark.usefixtures("keys")
async def test_options_schema_and_turns_as_they_are_sent(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(gemini([{"text": '{"a": 4}'}]))
    options = ModelOptions(reasoning_effort="low", temperature=0.5, max_output_tokens=99)
    turns = (Message(role="assistant", text="five"), Message(role="user", text="That is wrong."))
    reply = await chats.get(MODEL, options).ask(question.model_copy(update={"reply_schema": SCHEMA, "turns": turns}))
    assert reply.text == '{"a": 4}'
    config = stub.last.body["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0.5, 99)
    assert config["thinkingConfig"] == {"thinking_level": "LOW"}
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", SCHEMA)
    assert reply.sent["generationConfig"]["responseJsonSchema"].startswith("schema ")
    assert [content["role"] for content in stub.last.body["contents"]] == ["user", "model", "user"]


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("answer", "text", "finish"),
    [
        (gemini([{"text": '{"a":'}], finish="MAX_TOKENS"), '{"a":', "length"),
        (gemini([], finish="MAX_TOKENS"), "", "length"),
        (gemini([], finish="SAFETY"), "", "filter"),
        (gemini([], finish="RECITATION"), "", "filter"),
        (gemini(candidates=[], promptFeedback={"blockReason": "SAFETY"}), "", "filter"),
        (gemini(candidates=None), "", "other"),
        (gemini([], finish="STOP"), "", "stop"),
        (Answer([]), "", "other"),
        (gemini(candidates="none"), "", "other"),
    ],
)
async def test_replies_that_end_otherwise_are_replies(
    stub: Stub, chats: Chats, question: ChatRequest, answer: Answer, text: str, finish: str
) -> None:
    stub.will(answer)
    reply = await chats.get(MODEL).ask(question)
    assert (reply.text, reply.finish) == (text, finish)


@pytest.mark.usefixtures("keys")
async def test_an_unknown_end_is_other(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(gemini(finish="SOMETHING_NEW"))
    with pytest.warns(UserWarning, match="SOMETHING_NEW is not a valid FinishReason"):
        reply = await chats.get(MODEL).ask(question)
    assert (reply.text, reply.finish) == ("four", "other")


@pytest.mark.usefixtures("keys")
async def test_unknown_figures_are_none(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(gemini(usageMetadata=None))
    reply = await chats.get(MODEL).ask(question)
    assert (reply.usage, reply.usd) == (Usage(), None)


async def test_another_server_gets_its_own_key_only(
    stub: Stub, chats: Chats, question: ChatRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", GOOGLE_KEY)
    monkeypatch.setenv("KSEARCH_SERVER_API_KEY", SERVER_KEY)
    stub.will(gemini())
    reply = await chats.get(f"{MODEL}@{stub.url}").ask(question)
    assert stub.last.headers["x-goog-api-key"] == SERVER_KEY
    assert GOOGLE_KEY not in str(stub.last)
    assert reply.usd is None


async def test_a_missing_key_is_named(chats: Chats, question: ChatRequest) -> None:
    with pytest.raises(UsageError, match="needs a key: set GOOGLE_API_KEY or GEMINI_API_KEY"):
        await chats.get(MODEL).ask(question)


@pytest.mark.usefixtures("keys")
async def test_an_option_that_it_refuses_is_told(chats: Chats, question: ChatRequest) -> None:
    with pytest.raises(UsageError, match=r"cannot be used: .*reasoning_effort|thinking_level"):
        await chats.get(MODEL, ModelOptions(reasoning_effort="enormous")).ask(question)
