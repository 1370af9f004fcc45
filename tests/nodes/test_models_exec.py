"""`exec:`: real commands that answer, fail, hang, flood, and leave children behind."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from evaluators.errors import UsageError
from nodes.models.chat import ChatReply, ChatRequest, Message, Usage
from nodes.models.errors import ModelFailure
from nodes.models.factory import Chats
from nodes.models.options import ModelOptions

REQUEST = ChatRequest(role="coder", system="You write kernels.", prompt="What is 2 + 2? é", identity={})


def command(code: str) -> str:
    return "exec:" + shlex.join([sys.executable, "-c", code])


async def ask(code: str, request: ChatRequest = REQUEST, timeout_s: float = 60) -> ChatReply:
    return await Chats().get(command(code), ModelOptions(timeout_s=timeout_s)).ask(request)


async def test_the_prompt_goes_in_and_the_reply_comes_out() -> None:
    reply = await ask("import sys; text = sys.stdin.buffer.read(); sys.stdout.buffer.write(text + b'\\n4')")
    assert reply.text == "You write kernels.\n\nWhat is 2 + 2? é\n4"
    assert (reply.finish, reply.usage, reply.usd) == ("stop", Usage(), None)
    assert reply.model == f"exec:{sys.executable}"
    assert reply.sent["command"].startswith(sys.executable)


async def test_earlier_turns_are_part_of_the_prompt() -> None:
    turns = (Message(role="assistant", text="five"), Message(role="user", text="No."))
    request = REQUEST.model_copy(update={"turns": turns, "system": ""})
    reply = await ask("import sys; print(sys.stdin.read())", request)
    assert reply.text == "What is 2 + 2? é\n\n## Your earlier reply\n\nfive\n\n## What was wrong with it\n\nNo.\n"


async def test_a_command_that_does_not_read() -> None:
    request = REQUEST.model_copy(update={"prompt": "x" * 2_000_000})
    assert (await ask("print('4')", request)).text == "4\n"


async def test_an_empty_reply_and_one_that_is_no_utf8_are_replies() -> None:
    assert (await ask("pass")).text == ""
    assert (await ask("import sys; sys.stdout.buffer.write(b'a\\xff')")).text == "a\ufffd"


async def test_large_replies_on_both_outputs_do_not_block() -> None:
    reply = await ask("import sys; sys.stderr.write('e' * 3_000_000); sys.stdout.write('o' * 3_000_000)")
    assert len(reply.text) == 3_000_000


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('no\\nquota', file=sys.stderr); sys.exit(3)", r"ended with exit code 3: no quota$"),
        ("import sys; print('half a reply'); sys.exit(1)", r"ended with exit code 1: no message$"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended with signal SIGSEGV"),
        ("while True: print('x' * 100_000)", "wrote more than 16 MiB"),
    ],
)
async def test_failures_of_the_command(code: str, says: str) -> None:
    with pytest.raises(ModelFailure, match=says):
        await ask(code)


async def test_a_failure_does_not_tell_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "planted-0123456789")
    code = "import os, sys; print('bad key', os.environ['PLANTED_API_KEY'], file=sys.stderr); sys.exit(1)"
    with pytest.raises(ModelFailure, match=r"bad key \*\*\*$"):
        await ask(code)


LINGERING = """
import os, sys, time
child = os.fork()
if child:
    open(sys.argv[1], "w").write(f"{os.getpid()} {child}")
time.sleep(6000)
"""


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


async def pids(file: Path) -> list[int]:
    while not file.exists() or not file.read_text():
        await asyncio.sleep(0.02)
    return [int(pid) for pid in file.read_text().split()]


async def all_gone(processes: list[int]) -> None:
    while not all(gone(pid) for pid in processes):
        await asyncio.sleep(0.02)


async def test_a_timeout_kills_the_command_and_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    limits_s = iter((2, 10, 50))  # a busy machine may take longer than the first to start the command
    while not file.exists() or not file.read_text():
        limit_s = next(limits_s)
        with pytest.raises(ModelFailure, match=rf"did not answer within {limit_s} s"):
            await Chats().get(f"{command(LINGERING)} {file}", ModelOptions(timeout_s=limit_s)).ask(REQUEST)
    await all_gone(await pids(file))


async def test_cancelling_kills_the_command_and_its_children(tmp_path: Path) -> None:
    task = asyncio.create_task(Chats().get(f"{command(LINGERING)} {tmp_path / 'pids'}").ask(REQUEST))
    processes = await pids(tmp_path / "pids")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_gone(processes)


async def test_children_that_it_leaves_behind_are_killed(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '6000'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, "
        "stderr=subprocess.DEVNULL)\n"
        "print(child.pid)"
    )
    await all_gone([int((await ask(code)).text)])


async def test_commands_that_cannot_be_started() -> None:
    with pytest.raises(UsageError, match=r"exec:/no/such/agent cannot be started: No such file"):
        await Chats().get("exec:/no/such/agent -p").ask(REQUEST)
    with pytest.raises(UsageError, match=r"cannot be started: Permission denied"):
        await Chats().get(f"exec:{os.devnull}").ask(REQUEST)
