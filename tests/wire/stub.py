"""A local server that speaks OpenAI chat completions, OpenAI responses and Google generateContent, as told."""

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the server does with one request."""

    body: Any = None
    """JSON, or bytes that are sent as they are."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Wait before the first byte."""
    cut_after: int | None = None
    """Close the connection after so many bytes of the body; 0: after the header. None: send it whole."""
    trickle_s: float | None = None
    """Wait between two bytes of the body."""
    silent: bool = False
    """Close the connection without a word."""


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Stub:
    """Answers requests from a script, in order; the last answer is repeated."""

    answers: deque[Answer] = field(default_factory=deque)
    received: list[Received] = field(default_factory=list)
    url: str = ""
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving)

    def will(self, *answers: Answer) -> None:
        self.answers.extend(answers)

    @property
    def last(self) -> Received:
        return self.received[-1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # the client has left, or the test is over
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().rstrip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received.append(Received(method, path, headers, json.loads(data) if data else None))
        answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(answer.delay_s)
        if answer.silent:
            return False
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        fields = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in fields.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        for part in [body[: answer.cut_after]] if answer.trickle_s is None else [bytes([byte]) for byte in body]:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(answer.trickle_s or 0)
        return answer.cut_after is None


def completion(
    text: str | None = "four", finish: str = "stop", refusal: str | None = None, usage: Any = "default"
) -> Answer:
    """Return a chat completion."""
    return Answer(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-5.2-2025-12-11",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": refusal},
                    "finish_reason": finish,
                }
            ],
            "usage": {
                "prompt_tokens": 1200,
                "completion_tokens": 340,
                "total_tokens": 1540,
                "prompt_tokens_details": {"cached_tokens": 1024},
                "completion_tokens_details": {"reasoning_tokens": 256},
            }
            if usage == "default"
            else usage,
        }
    )


def response(
    text: str = "four", status: str = "completed", incomplete: str | None = None, refusal: str | None = None
) -> Answer:
    """Return an answer of the responses API, with a reasoning item ahead of the message."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    if refusal is not None:
        part = {"type": "refusal", "refusal": refusal}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}
    return Answer(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5.2-codex",
            "status": status,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            "error": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": 1.0,
            "top_p": 1.0,
            "output": [{"id": "rs_1", "type": "reasoning", "summary": []}, message],
            "usage": {
                "input_tokens": 900,
                "input_tokens_details": {"cached_tokens": 512},
                "output_tokens": 70,
                "output_tokens_details": {"reasoning_tokens": 64},
                "total_tokens": 970,
            },
        }
    )


def gemini(parts: list[dict[str, Any]] | None = None, finish: str = "STOP", **more: Any) -> Answer:
    """Return an answer of generateContent; `more` replaces top-level fields."""
    content = {"role": "model", "parts": [{"text": "four"}] if parts is None else parts}
    body = {
        "candidates": [{"content": content, "finishReason": finish, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 800,
            "candidatesTokenCount": 50,
            "thoughtsTokenCount": 200,
            "cachedContentTokenCount": 600,
            "totalTokenCount": 1050,
        },
        "modelVersion": "gemini-3-pro-preview",
    }
    return Answer({**body, **more})


def openai_error(status: int, message: str = "scripted", code: str | None = None, **headers: str) -> Answer:
    """Return an error as OpenAI words it."""
    error = {"message": message, "type": "scripted", "param": None, "code": code}
    return Answer({"error": error}, status, {name.replace("_", "-"): value for name, value in headers.items()})


def google_error(status: int, message: str = "scripted", name: str = "UNKNOWN", details: Any = ()) -> Answer:
    """Return an error as Google words it."""
    error = {"code": status, "message": message, "status": name, "details": list(details)}
    return Answer({"error": error}, status)
