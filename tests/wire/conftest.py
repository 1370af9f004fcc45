"""A stub server and chat models that are let go of at the end; an environment without anybody's keys."""

from collections.abc import AsyncIterator

import pytest

from nodes.models.chat import ChatRequest
from nodes.models.factory import Chats
from tests.wire.stub import Stub

OPENAI_KEY = "sk-planted-openai-0123456789"
GOOGLE_KEY = "AIza-planted-google-0123456789"
SERVER_KEY = "planted-server-0123456789"
KEYS = (OPENAI_KEY, GOOGLE_KEY, SERVER_KEY)


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    server = Stub()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def chats() -> AsyncIterator[Chats]:
    made = Chats()
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys, addresses and proxies of whoever runs the tests."""
    keys = ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "KSEARCH_SERVER_API_KEY")
    addresses = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "GOOGLE_GEMINI_BASE_URL")
    for name in (*keys, *addresses, "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, stub: Stub) -> None:
    """Keys in the environment, and the providers' own addresses leading to the stub, by their own variables."""
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    monkeypatch.setenv("GOOGLE_API_KEY", GOOGLE_KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.url}/v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", stub.url)


@pytest.fixture
def question() -> ChatRequest:
    return ChatRequest(role="coder", system="You write kernels.", prompt="What is 2 + 2?", identity={"kind": "first"})
