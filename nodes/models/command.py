"""`exec:COMMAND`: any program that reads a prompt on its standard input and writes the reply on its standard output.

The command line is split as a shell would, but run without one (`exec:sh -c '...'` gives a shell). It runs in the
current folder with the whole environment of ksearch, keys included: a coding agent needs its own. Whoever does not want
that starts ksearch without them. It answers once: an exit code other than 0 stops the run, which can be resumed.
"""

import asyncio
import os
import shlex
import shutil
import signal
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from evaluators.errors import UsageError
from nodes.models.chat import ChatReply, ChatRequest
from nodes.models.errors import ModelFailure, redacted, told
from nodes.models.options import ModelOptions
from nodes.models.question import ManualQuestion
from nodes.review_question import ReviewQuestion

LARGEST_REPLY_BYTES = 16 * 2**20
GRACE_S = 5.0
"""How long to wait for the pipes of a command that was killed."""
_SPEAKERS = {"assistant": "Your earlier reply", "user": "What was wrong with it"}


class ExecChat:
    """Implements nodes.models.chat.Chat by a command."""

    def __init__(self, command: str, options: ModelOptions) -> None:
        """Raises UsageError when the command line cannot be split."""
        self.arguments = _split(command)
        self.options = options

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return what the command answers. Tokens and price are unknown."""
        started = time.monotonic()
        process = await self._start()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                text, complaint = await _converse(process, as_text(request).encode("utf-8", "replace"))
        except TimeoutError:
            raise self._failure(f"did not answer within {self.options.timeout_s:g} s") from None
        except _TooMuch as error:
            raise self._failure(str(error)) from None
        finally:
            await _end(process)
        if process.returncode:
            raise self._failure(f"ended with {_ending(process.returncode)}: {told(complaint[-2000:]) or 'no message'}")
        return ChatReply(
            text=text,
            model=f"exec:{self.arguments[0]}",
            finish="stop",
            sent={"command": redacted(shlex.join(self.arguments)), "timeout_s": self.options.timeout_s},
            latency_s=round(time.monotonic() - started, 3),
        )

    async def _start(self) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"exec:{self.arguments[0]} cannot be started: {error.strerror}") from error

    def _failure(self, reason: str) -> ModelFailure:
        return ModelFailure(f"exec:{self.arguments[0]} {reason}")


def require_command(command: str) -> None:
    """Raise UsageError when there is no such command on this machine. Nothing is started."""
    name = _split(command)[0]
    if shutil.which(name) is None:
        raise UsageError(f"exec:{name}: there is no such command here: install it, or give its path")


def _split(command: str) -> list[str]:
    """Return the words of a command line, at least one. Raises UsageError."""
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"exec:{command}: {error}") from error
    if not arguments:
        raise UsageError("exec: needs a command, such as `exec:my-agent --print`")
    return arguments


class _TooMuch(Exception):
    """The command writes without end."""


def as_text(request: ChatRequest | ManualQuestion | ReviewQuestion) -> str:
    """Return the whole question as one text, for answerers that take no list of messages."""
    parts = [request.system, request.prompt]
    parts += [f"## {_SPEAKERS[turn.role]}\n\n{turn.text}" for turn in request.turns]
    return "\n\n".join(part for part in parts if part)


async def _converse(process: Process, question: bytes) -> tuple[str, str]:
    """Return what the command writes on its two outputs until it closes them and ends."""
    answer, complaint, _, _ = await asyncio.gather(
        _read(process, process.stdout), _read(process, process.stderr), _write(process, question), process.wait()
    )
    if max(len(answer), len(complaint)) > LARGEST_REPLY_BYTES:
        raise _TooMuch(f"wrote more than {LARGEST_REPLY_BYTES // 2**20} MiB")
    return answer.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")


async def _write(process: Process, question: bytes) -> None:
    pipe = process.stdin
    if pipe is None:
        return
    try:
        pipe.write(question)
        await pipe.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # it may answer without reading to the end
    finally:
        pipe.close()


async def _read(process: Process, pipe: asyncio.StreamReader | None) -> bytes:
    """Return what comes out of a pipe; a command that writes too much is killed, and the rest is dropped."""
    data = bytearray()
    while pipe is not None and (block := await pipe.read(2**16)):
        if len(data) <= LARGEST_REPLY_BYTES:
            data += block
        if len(data) > LARGEST_REPLY_BYTES:
            _kill(process)
    return bytes(data)


def _kill(process: Process) -> None:
    """Kill whatever is left of the command's process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: Process) -> None:
    """Kill the command's process group, and collect it."""
    _kill(process)
    # asyncio closes a pipe that is full only when it is read, and waits for its pipes before it has a process ended.
    # A child that has left the group may hold them open for ever.
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await asyncio.gather(_drop(process.stdout), _drop(process.stderr), process.wait())


async def _drop(pipe: asyncio.StreamReader | None) -> None:
    while pipe is not None and await pipe.read(2**16):
        pass


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
