"""OpenAI's two APIs over real HTTP: what is sent, what is read back."""

import pytest

from evaluators.errors import UsageError
from nodes.models.chat import ChatRequest, Message, Usage
from nodes.models.factory import Chats
from nodes.models.options import ModelOptions
from tests.wire.conftest import OPENAI_KEY, SERVER_KEY
from tests.wire.stub import Answer, Stub, completion, response

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.usefixtures("keys")
async def test_a_completion_with_all_its_figures(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(completion("four"))
    reply = await chats.get("openai:gpt-5.2").ask(question)
    assert (reply.text, reply.finish, reply.model) == ("four", "stop", "gpt-5.2-2025-12-11")
    assert reply.usage == Usage(input_tokens=1200, output_tokens=340, cached_tokens=1024, reasoning_tokens=256)
    assert reply.usd == pytest.approx((176 * 1.75 + 1024 * 0.175 + 340 * 14.0) / 1e6)
    assert reply.sent == {"path": "/v1/chat/completions", "model": "gpt-5.2", "stream": False, "tries": 1}
    assert stub.last.headers["authorization"] == f"Bearer {OPENAI_KEY}"
    assert [(message["role"], message["content"]) for message in stub.last.body["messages"]] == [
        ("system", "You write kernels."),
        ("user", "What is 2 + 2?"),
    ]


@pytest.mark.usefixtures("keys")
async def test_corrective_turns_follow_the_prompt(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(completion())
    turns = (Message(role="assistant", text="five"), Message(role="user", text="That is wrong."))
    await chats.get("openai:gpt-5.2").ask(question.model_copy(update={"turns": turns, "system": ""}))
    assert [(message["role"], message["content"]) for message in stub.last.body["messages"]] == [
        ("user", "What is 2 + 2?"),
        ("assistant", "five"),
        ("user", "That is wrong."),
    ]


@pytest.mark.usefixtures("keys")
async def test_options_as_they_are_really_sent(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(completion())
    options = ModelOptions(reasoning_effort="high", temperature=0.25, max_output_tokens=77)
    sent = (await chats.get("openai:gpt-5.2", options).ask(question)).sent
    # The client leaves out the temperature for models that refuse one: the record says what was sent.
    assert sent["reasoning_effort"] == "high"
    assert sent["max_completion_tokens"] == 77
    assert "temperature" not in sent
    sent = (await chats.get("openai:gpt-4.1", options.model_copy(update={"reasoning_effort": None})).ask(question)).sent
    assert sent["temperature"] == 0.25


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(("loose", "strict"), [(False, True), (True, False)])
async def test_a_schema_is_asked_for(
    stub: Stub, chats: Chats, question: ChatRequest, loose: bool, strict: bool
) -> None:
    schema = {**SCHEMA, "required": []} if loose else SCHEMA
    stub.will(completion('{"a": 4}'))
    reply = await chats.get("openai:gpt-5.2").ask(question.model_copy(update={"reply_schema": schema}))
    asked = stub.last.body["response_format"]
    assert asked == {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": strict}}
    assert reply.sent["response_format"]["json_schema"]["schema"].startswith("schema ")
    assert reply.text == '{"a": 4}'


@pytest.mark.usefixtures("keys")
async def test_a_schema_can_be_kept_from_a_server(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(completion())
    chat = chats.get("openai:gpt-5.2", ModelOptions(structured=False))
    await chat.ask(question.model_copy(update={"reply_schema": SCHEMA}))
    assert "response_format" not in stub.last.body


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("answer", "text", "finish"),
    [
        (completion('{"a":', finish="length"), '{"a":', "length"),
        (completion(None, refusal="I cannot"), "I cannot", "refusal"),
        (completion(None, finish="content_filter"), "", "filter"),
        (completion(None), "", "stop"),
        (completion("", finish="tool_calls"), "", "other"),
        (completion("caf\u00e9 \U0001f600", finish="stop"), "caf\u00e9 \U0001f600", "stop"),
        (Answer(b'{"choices": [{"message": {"role": "assistant", "content": "\\ud83d!"}}]}'), "?!", "other"),
    ],
)
async def test_replies_that_end_otherwise_are_replies(
    stub: Stub, chats: Chats, question: ChatRequest, answer: Answer, text: str, finish: str
) -> None:
    stub.will(answer)
    reply = await chats.get("openai:gpt-5.2").ask(question.model_copy(update={"reply_schema": SCHEMA}))
    assert (reply.text, reply.finish) == (text, finish)


@pytest.mark.usefixtures("keys")
async def test_unknown_figures_are_none(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(completion(usage=None))
    reply = await chats.get("openai:gpt-5.2").ask(question)
    assert (reply.usage, reply.usd) == (Usage(), None)
    stub.answers.clear()
    stub.will(completion(usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}))
    reply = await chats.get("openai:gpt-5.2").ask(question)
    assert reply.usage == Usage(input_tokens=10, output_tokens=5)
    assert reply.usd == pytest.approx((10 * 1.75 + 5 * 14.0) / 1e6)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("answer", "text", "finish"),
    [
        (response('{"a": 4}'), '{"a": 4}', "stop"),
        (response('{"a":', "incomplete", "max_output_tokens"), '{"a":', "length"),
        (response("", "incomplete", "content_filter"), "", "filter"),
        (response(refusal="I can't"), "I can't", "refusal"),
    ],
)
async def test_the_responses_api(
    stub: Stub, chats: Chats, question: ChatRequest, answer: Answer, text: str, finish: str
) -> None:
    stub.will(answer)
    reply = await chats.get("openai:gpt-5.2-codex").ask(question.model_copy(update={"reply_schema": SCHEMA}))
    assert stub.last.path == "/v1/responses"
    assert stub.last.body["text"]["format"] == {
        "type": "json_schema", "name": "reply", "schema": SCHEMA, "strict": True,
    }  # fmt: skip
    assert (reply.text, reply.finish) == (text, finish)
    assert reply.usage == Usage(input_tokens=900, output_tokens=70, cached_tokens=512, reasoning_tokens=64)
    assert reply.usd == pytest.approx((388 * 1.75 + 512 * 0.175 + 70 * 14.0) / 1e6)
    assert "input" not in reply.sent


async def test_a_compatible_server_needs_no_key_and_has_no_price(
    stub: Stub, chats: Chats, question: ChatRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    stub.will(completion())
    options = ModelOptions(max_output_tokens=50)
    chat = chats.get(f"openai:gpt-5.2@{stub.url}/v1", options)
    reply = await chat.ask(question.model_copy(update={"reply_schema": SCHEMA}))
    assert reply.usd is None
    assert stub.last.body["max_tokens"] == 50
    assert stub.last.body["response_format"]["type"] == "json_schema"
    assert OPENAI_KEY not in str(stub.last)


async def test_a_compatible_server_gets_its_own_key(
    stub: Stub, chats: Chats, question: ChatRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSEARCH_SERVER_API_KEY", SERVER_KEY)
    stub.will(completion())
    await chats.get(f"openai:qwen3@{stub.url}/v1").ask(question)
    assert stub.last.headers["authorization"] == f"Bearer {SERVER_KEY}"


async def test_a_missing_key_is_named_at_the_first_question_only(chats: Chats, question: ChatRequest) -> None:
    chat = chats.get("openai:gpt-5.2")
    with pytest.raises(UsageError, match=r"openai:gpt-5\.2 needs a key: set OPENAI_API_KEY"):
        await chat.ask(question)
