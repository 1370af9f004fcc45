"""What goes wrong on the way to a model: what is tried again, what stops the run, and in which words."""

import time
import traceback
from pathlib import Path

import pytest
from langchain_openai import AzureChatOpenAI

from checkpoints.home import open_home
from evaluators.errors import UsageError
from nodes.models.asking import ask_paid
from nodes.models.chat import ChatRequest
from nodes.models.errors import ModelFailure
from nodes.models.factory import Chats
from nodes.models.options import ModelOptions
from nodes.models.provider import FIRST_WAIT_S, ProviderChat
from nodes.paid import PaidCalls
from tests.wire.conftest import KEYS
from tests.wire.stub import Answer, Stub, completion, gemini, google_error, openai_error

OPENAI = "openai:gpt-5.2"
GOOGLE = "google_genai:gemini-3-pro-preview"
pytestmark = pytest.mark.usefixtures("keys")


def good(model: str) -> Answer:
    return completion() if model == OPENAI else gemini()


@pytest.mark.parametrize(
    ("model", "bad"),
    [
        (OPENAI, openai_error(429, "slow down", retry_after="0.01")),
        (OPENAI, openai_error(500)),
        (OPENAI, openai_error(503, retry_after="0")),
        (OPENAI, Answer({"choices": []}, cut_after=5)),
        (OPENAI, Answer(silent=True)),
        (OPENAI, Answer({}, delay_s=60)),
        (GOOGLE, google_error(429, "quota", details=[{"@type": "type/RetryInfo", "retryDelay": "0.01s"}])),
        (GOOGLE, google_error(500)),
        (GOOGLE, google_error(503)),
        (GOOGLE, Answer({"candidates": []}, cut_after=5)),
        (GOOGLE, Answer(silent=True)),
        (GOOGLE, Answer({}, delay_s=60)),
    ],
)
async def test_what_may_pass_is_tried_again(
    stub: Stub, chats: Chats, question: ChatRequest, model: str, bad: Answer
) -> None:
    stub.will(bad, good(model))
    reply = await chats.get(model, ModelOptions(retries=1, timeout_s=3.0)).ask(question)
    assert (reply.text, reply.sent["tries"], len(stub.received)) == ("four", 2, 2)


@pytest.mark.parametrize(
    ("model", "bad", "says"),
    [
        (OPENAI, openai_error(400, "no such parameter"), "OpenAIInvalidRequestError: .*no such parameter"),
        (OPENAI, openai_error(401, "bad key"), "OpenAIAuthenticationError: .*bad key"),
        (OPENAI, openai_error(404, "no model"), "OpenAIModelNotFoundError: .*no model"),
        (OPENAI, Answer([1, 2]), r"ValueError: .*got list"),
        (OPENAI, Answer(b"<html>\nhello", headers={"content-type": "text/html"}), r"ValueError: .*<html>\\nhello"),
        (OPENAI, Answer(b'{"choices": ['), "JSONDecodeError"),
        (OPENAI, Answer({"choices": None}), "TypeError: Received response with null value"),
        (OPENAI, Answer({"choices": []}), "IndexError"),
        (OPENAI, completion(5), "ValidationError: .*Input should be a valid string"),  # type: ignore[arg-type]
        (OPENAI, completion(usage={"prompt_tokens": "many"}), "TypeError"),
        (GOOGLE, google_error(400, "bad schema"), "GoogleInvalidRequestError: .*bad schema"),
        (GOOGLE, google_error(403, "not allowed"), "GooglePermissionDeniedError: .*not allowed"),
        (GOOGLE, gemini([{"text": 5}]), "ValidationError: .*Input should be a valid string"),
        (GOOGLE, Answer(b"<html>"), "JSONDecodeError"),
    ],
)  # fmt: skip
async def test_what_will_not_pass_stops_the_run_at_once(
    stub: Stub, chats: Chats, question: ChatRequest, model: str, bad: Answer, says: str
) -> None:
    stub.will(bad)
    with pytest.raises(
        ModelFailure, match=f"{model} gave no reply after one try, resume later or with another: {says}"
    ):
        await chats.get(model).ask(question)
    assert len(stub.received) == 1


@pytest.mark.parametrize("model", [OPENAI, GOOGLE])
async def test_tries_are_counted_and_bounded(stub: Stub, chats: Chats, question: ChatRequest, model: str) -> None:
    stub.will(openai_error(429, "slow", retry_after="0"))
    with pytest.raises(ModelFailure, match=r"after 4 tries.*RateLimitError"):
        await chats.get(model, ModelOptions(retries=3)).ask(question)
    assert len(stub.received) == 4


async def test_the_wait_that_the_server_asks_for_is_kept(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(openai_error(429, retry_after="0.4"), completion())
    assert (await chats.get(OPENAI).ask(question)).latency_s >= 0.4


async def test_without_a_word_of_the_server_the_wait_is_ours(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(openai_error(500), completion())
    reply = await chats.get(OPENAI).ask(question)
    assert reply.latency_s >= 0.75 * FIRST_WAIT_S


async def test_a_server_that_asks_for_hours_is_not_waited_for(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(openai_error(429, "out of quota", retry_after="7200"))
    with pytest.raises(ModelFailure, match=r"after one try \(its server asks to wait 7200 s\).*out of quota"):
        await chats.get(OPENAI).ask(question)


async def test_a_closed_port(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    await stub.stop()
    for model in (OPENAI, GOOGLE):
        with pytest.raises(ModelFailure, match="onnect"):
            await chats.get(model, ModelOptions(retries=0)).ask(question)


async def test_a_slow_trickle_is_cut_at_the_limit(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    # Each byte comes in time, the whole does not: only a limit on the whole call ends it.
    stub.will(Answer(completion().body, trickle_s=0.05))
    with pytest.raises(ModelFailure, match="TimeoutError"):
        await chats.get(OPENAI, ModelOptions(retries=0, timeout_s=0.5)).ask(question)


async def test_requests_per_minute(stub: Stub, chats: Chats, question: ChatRequest) -> None:
    stub.will(completion())
    chat = chats.get(OPENAI, ModelOptions(requests_per_minute=600))
    await chat.ask(question)
    began = time.monotonic()
    for _ in range(3):
        await chat.ask(question)
    assert time.monotonic() - began >= 0.2


async def test_a_package_that_is_not_installed(chats: Chats, question: ChatRequest) -> None:
    with pytest.raises(UsageError, match=r"a package is not installed: .*langchain-anthropic"):
        await chats.get("anthropic:claude").ask(question)


async def test_another_provider_of_init_chat_model(
    stub: Stub, chats: Chats, question: ChatRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", stub.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEYS[2])
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01")
    stub.will(completion())
    reply = await chats.get("azure_openai:my-deployment").ask(question)
    assert stub.last.path.startswith("/openai/deployments/my-deployment/chat/completions")
    assert (reply.text, reply.usage.input_tokens, reply.usd) == ("four", 1200, None)
    stub.answers.clear()
    stub.will(openai_error(401, "bad key"))
    chat = chats.get("azure_openai:my-deployment")
    with pytest.raises(ModelFailure, match="OpenAIAuthenticationError"):
        await chat.ask(question)
    # LangChain's models cannot be closed alike; a process lets go of them at its end.
    assert isinstance(chat, ProviderChat)
    assert chat._client is not None
    assert isinstance(chat._client.model, AzureChatOpenAI)
    await chat._client.model.root_async_client.close()


async def test_keys_are_in_no_message_and_no_record(
    stub: Stub, chats: Chats, question: ChatRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSEARCH_SERVER_API_KEY", KEYS[2])
    told: list[str] = []
    async with open_home(tmp_path) as home:
        for number, (model, error) in enumerate(
            (
                (OPENAI, openai_error(401, f"Incorrect API key provided: {KEYS[0]}")),
                (OPENAI, Answer(f"you sent {KEYS[0]}".encode(), headers={"content-type": "text/plain"})),
                (GOOGLE, google_error(403, f"the key {KEYS[1]} is not allowed")),
                (GOOGLE, Answer(f"you sent {KEYS[1]}".encode())),
                (f"openai:qwen@{stub.url}/v1", openai_error(400, f"what is {KEYS[2]}?")),
            )
        ):
            calls = PaidCalls(home.ledger, home.blobs, "thread", number)
            stub.answers.clear()
            stub.will(error)
            with pytest.raises(ModelFailure) as caught:
                await ask_paid(chats.get(model), calls, question)
            told += ["".join(traceback.format_exception(caught.value)), repr(caught.value)]
            stub.answers.clear()
            stub.will(good(model.partition("@")[0] if "@" not in model else OPENAI))
            await ask_paid(chats.get(model), calls, question)
    assert len(told) == 10
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.suffix == ".sqlite" or "ksearch" in file.name for file in files)
    from checkpoints.database import open_blobs

    blobs = open_blobs(tmp_path)
    stored = [blobs.get(file.parent.name + file.name) for file in blobs.folder.glob("??/*")]
    assert stored
    for key in KEYS:
        assert all(key not in text for text in told)
        assert all(key.encode() not in data for data in (*stored, *(file.read_bytes() for file in files)))
