"""`langgraph dev` with the repository's langgraph.json: one server for all tests here, with a home of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.ports import keep_port, number

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "home"


@pytest.fixture(scope="session")
def address(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server as `make dev` does, with a folder of runs of its own."""
    with serving(tmp_path_factory.mktemp("log") / "server.log", KSEARCH_HOME=str(home)) as address:
        yield address


@contextmanager
def serving(log: Path, **variables: str) -> Iterator[str]:
    """Start the server with these environment variables; give its address."""
    kept = keep_port()
    port = number(kept)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        **variables,
    }
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait_until_ready(port, server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        kept.close()


def _wait_until_ready(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()}")


@pytest.fixture
async def client(address: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=address) as opened:
        yield opened
