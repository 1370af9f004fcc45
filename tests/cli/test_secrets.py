"""Keys in the environment: in no file, no output, no cassette, and not in the environment of a candidate."""

import asyncio
import json
import os
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from evaluators.errors import UsageError
from graph.cli.env_file import load_env
from tests.cli.conftest import Done, command, environment
from tests.replies import plan, program
from tests.wire.stub import Answer, Stub, completion

KEYS = {
    "OPENAI_API_KEY": "sk-planted-openai-0123456789",
    "GOOGLE_API_KEY": "AIza-planted-google-0123456789",
    "KSEARCH_SERVER_API_KEY": "planted-server-0123456789",
    "DATABASE_PASSWORD": "planted-password-0123456789",
}
CURIOUS = """```python
import os


def softmax(x, y):
    found = [name for name, value in os.environ.items() if "planted" in value]
    raise RuntimeError(f"{len(os.environ)} variables, planted ones: {found}")
```
"""


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    server = Stub()
    await server.start()
    yield server
    await server.stop()


async def ksearch(folder: Path, *arguments: object, **changes: str) -> Done:
    """Run `ksearch ARGUMENTS` while the stub answers, with the keys in its environment."""
    process = await asyncio.create_subprocess_exec(
        *command(*arguments),
        cwd=folder,
        env=environment(**KEYS, **changes),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Done(process.returncode or 0, out.decode(), err.decode())


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below `folder`; blobs unpacked."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path, zlib.decompress(data) if "blobs" in path.parts else data


def leaks(folder: Path, *outputs: Done) -> list[str]:
    places = [(str(path), data) for path, data in contents(folder)]
    places += [("output", (done.out + done.err).encode()) for done in outputs]
    return [f"{name} in {place}" for place, data in places for name, key in KEYS.items() if key.encode() in data]


async def test_a_key_is_sent_to_the_provider_and_is_written_nowhere(tmp_path: Path, stub: Stub) -> None:
    refusal = {"message": f"Incorrect API key provided: {KEYS['OPENAI_API_KEY']}", "type": "x", "code": "invalid"}
    stub.will(completion(plan("Tile", "Unroll", "Fuse")), completion(program("objective = 1.5", 1)))
    stub.will(Answer({"error": refusal}, 401))
    models = ("--planner", "openai:gpt-5.2", "--coder", "openai:gpt-5.2", "--evaluator", "scripted")
    addresses = {"OPENAI_BASE_URL": f"{stub.url}/v1"}
    run = await ksearch(tmp_path, "run", "scripted", *models, "--record", "run.jsonl", **addresses)
    assert run.code == 1
    assert "Incorrect API key provided: ***" in run.err
    assert {request.headers["authorization"] for request in stub.received} == {f"Bearer {KEYS['OPENAI_API_KEY']}"}
    show = await ksearch(tmp_path, "show", "--json")
    export = await ksearch(tmp_path, "export", "--to", "best")
    prompts = await ksearch(tmp_path, "prompts", "render", "scripted")
    debug = await ksearch(tmp_path, "resume", "--debug", **addresses)
    assert (show.code, export.code, prompts.code, debug.code) == (0, 0, 0, 1)
    assert "Traceback" in debug.err
    assert leaks(tmp_path, run, show, export, prompts, debug) == []
    # What was looked through does hold what was said and why it ended.
    found = b"".join(data for _, data in contents(tmp_path / ".ksearch"))
    assert b"Incorrect API key provided: ***" in found
    assert b"int sample_1;" in found
    cassette = (tmp_path / "run.jsonl").read_text()
    assert "int sample_1;" in cassette
    spend = show.json["spend"]
    assert spend["cached_share"] == pytest.approx(1024 / 1200)
    assert spend["usd"] > 0


async def test_a_key_in_a_file_is_used_unless_the_environment_has_one(tmp_path: Path, stub: Stub) -> None:
    stub.will(completion("no plan"))
    lines = [
        "OPENAI_API_KEY='sk-from-the-file-0123456789'",
        "OPENAI_BASE_URL=http://127.0.0.1:9/v1",
        "KSEARCH_HOME=runs",
    ]
    (tmp_path / ".env").write_text("\n".join(lines))
    models = ("--planner", "openai:gpt-5.2", "--coder", "manual", "--evaluator", "scripted")
    options = ("--set", "max_corrections=0")
    for key, sent in (("", "sk-from-the-file-0123456789"), ("sk-of-the-environment", "sk-of-the-environment")):
        addresses = {"OPENAI_BASE_URL": f"{stub.url}/v1", **({"OPENAI_API_KEY": key} if key else {})}
        process = await asyncio.create_subprocess_exec(
            *command("run", "scripted", *models, *options), cwd=tmp_path, env=environment(**addresses),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, err = await process.communicate()
        assert process.returncode == 3, err
        assert stub.last.headers["authorization"] == f"Bearer {sent}"
    assert (tmp_path / "runs" / "ksearch.sqlite").exists()


def test_a_file_cannot_say_where_a_key_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".env"
    names = ("OPENAI_BASE_URL", "HTTPS_PROXY", "LD_PRELOAD", "GROQ_API_KEY", "KSEARCH_HOME")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    file.write_text("".join(f"export {name} = there\n" for name in names) + "XAI_API_KEY=\n")
    load_env(file)
    assert [name for name in names if name in os.environ] == ["GROQ_API_KEY", "KSEARCH_HOME"]
    assert "XAI_API_KEY" not in os.environ
    load_env(tmp_path / "missing")
    file.write_bytes(b"A=\xff\n")
    with pytest.raises(UsageError, match=r"\.env: cannot be read"):
        load_env(file)


async def test_a_server_of_one_s_own_gets_its_key_and_no_other_and_candidates_get_none(
    tmp_path: Path, stub: Stub
) -> None:
    stub.will(completion(plan("Tile", "Unroll", "Fuse")), completion(CURIOUS))
    model = f"openai:x@{stub.url}/v1"
    models = ("--planner", model, "--coder", model, "--language", "python", "--no-seed-program")
    options = ("--evaluations", 1, "--set", "stagnation=1", "--set", "max_corrections=0", "--record", "run.jsonl")
    done = await ksearch(tmp_path, "run", "softmax", *models, *options, "--json")
    assert done.code == 1, "no program passed"
    assert done.json["spend"]["evaluations"] == 1, done.err
    sent = json.dumps([request.headers for request in stub.received] + [request.body for request in stub.received])
    assert KEYS["KSEARCH_SERVER_API_KEY"] in sent
    assert not any(key in sent for name, key in KEYS.items() if name != "KSEARCH_SERVER_API_KEY")
    entries = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()[1:]]
    (message,) = [entry["result"]["message"] for entry in entries if entry["kind"] == "evaluation"]
    assert message.endswith("variables, planted ones: []"), "the candidate looked, and found none"
    assert leaks(tmp_path, done) == []
