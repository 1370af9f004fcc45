"""The command line on a home on a PostgreSQL server, shared by machines, which may go away and come back."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import SCRIPTED, Call, command, environment
from tests.postgres_server import PostgresServer, programs

LONG = ("run", "scripted", *SCRIPTED, "--evaluations", 400, "--json")


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server of the test's own; asks for the shared one only to be skipped where there is none."""
    folder = programs()
    assert folder is not None
    own = PostgresServer(folder)
    yield own
    own.remove()


def test_every_command_works_and_nothing_secret_is_kept(
    ksearch: Call, postgres: PostgresServer, tmp_path: Path
) -> None:
    home = postgres.home()
    named = ("--home", home)
    done = ksearch("run", "scripted", *SCRIPTED, "--evaluations", 6, *named)
    assert (done.code, "KSEARCH_BLOBS=FOLDER or a URL" in done.err) == (2, True)
    secret = {"KSEARCH_BLOBS": "blobs", "PGPASSWORD": "hush-hush"}
    done = ksearch("run", "scripted", *SCRIPTED, "--evaluations", 6, *named, **secret)
    assert done.code == 0, done.err
    for words in (("show",), ("tree",), ("log",), ("list",), ("export", "latest", "--to", "out"), ("prune",)):
        again = ksearch(*words, *named)
        assert (again.code, "Traceback" in again.err) == (0, False), (words, again.err)
    branched = ksearch("branch", "latest", "--at", 1, "--name", "other", *named)
    assert branched.code == 0, branched.err
    resumed = ksearch("resume", "other", *named)
    assert resumed.code == 0, resumed.err
    names = {run["thread"] for run in ksearch("list", "--json", KSEARCH_HOME=home).json}
    assert names == {"scripted-1", "other"}
    dump = "".join(file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file())
    assert "hush-hush" not in dump
    refused = ksearch("list", "--home", "postgresql://ada:hush-hush@db/runs")
    assert (refused.code, "hush-hush" in refused.err, "PGPASSWORD" in refused.err) == (2, False, True)


def test_a_run_whose_server_goes_away_stops_and_goes_on(ksearch: Call, server: PostgresServer, tmp_path: Path) -> None:
    named = ("--home", server.home())
    run = subprocess.Popen(
        command(*LONG, *named),
        cwd=tmp_path,
        env=environment(KSEARCH_BLOBS="blobs"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = tmp_path / ".ksearch" / "logs" / "scripted-1.jsonl"
    while run.poll() is None and not (log.exists() and log.read_text().count('"round"') >= 3):
        time.sleep(0.05)
    server.stop()
    _, err = run.communicate(timeout=200)
    assert run.returncode == 1, err
    assert re.search(r"postgresql://\S+ cannot be reached .*: start it again.*then resume the run", err), err
    assert "Traceback" not in err
    away = ksearch("list", *named)
    assert (away.code, "cannot be reached" in away.err) == (1, True)
    server.start()
    (listed,) = ksearch("list", "--json", *named).json
    assert listed["status"] == "interrupted"
    done = ksearch("resume", "scripted-1", "--evaluations", 12, "--json", *named)
    assert done.code == 0, done.err
    assert json.loads(done.out)["status"] == "finished"
