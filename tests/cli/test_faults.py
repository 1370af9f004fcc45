"""Damage under a run: one line that names what is lost, and the run goes on after repair as if nothing had happened."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpoints.history import read_snapshot
from tests.cli.conftest import SCRIPTED, Call, call
from tests.small_disk import small_disk

RUN = ("run", "scripted", *SCRIPTED, "--set", "stagnation=2", "--evaluations", 30, "--width", 2, "--json")
EQUAL = ("tree", "attempts", "edits", "incumbent", "round", "stop")


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Path]:
    """A file system of 700 kB, which can be made larger."""
    with small_disk(tmp_path / "tight", "700k") as place:
        yield place


def test_a_disk_that_fills_stops_the_run_which_goes_on_after_repair(ksearch: Call, tight: Path) -> None:
    done = ksearch(*RUN, "--home", "tight/home")
    assert done.code == 1
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert "no space is left for tight/home" in line
    assert "then resume the run; nothing that was recorded is lost" in line
    subprocess.run(["mount", "-o", "remount,size=64m", tight], check=True)
    assert ksearch("list", "--home", "tight/home", "--json").json[0]["status"] in ("failed", "interrupted")
    resumed = ksearch("resume", "--home", "tight/home", "--json")
    assert resumed.code == 0, resumed.err
    assert ksearch(*RUN, "--home", "whole").code == 0
    states = [read_snapshot(tight.parent / folder, "scripted-1").values for folder in ("tight/home", "whole")]
    assert [states[0][key] for key in EQUAL] == [states[1][key] for key in EQUAL]


def test_a_home_that_was_copied_elsewhere_goes_on(finished: Path) -> None:
    shutil.copytree(finished / ".ksearch", finished / "elsewhere/runs")
    shutil.rmtree(finished / ".ksearch")
    shutil.move(finished / "script.json", finished / "elsewhere/script.json")
    elsewhere = finished / "elsewhere"
    assert call(elsewhere, "branch", "--home", "runs", "--at", 1, "--name", "moved").code == 0
    done = call(elsewhere, "resume", "moved", "--home", "runs", "--json")
    assert done.code == 0, done.err
    assert (done.json["round"], done.json["best"]["ratio"]) == (5, 2.0)
    states = [read_snapshot(elsewhere / "runs", name).values for name in ("moved", "scripted-1")]
    assert [states[0][key] for key in EQUAL] == [states[1][key] for key in EQUAL]


def test_a_damaged_blob_is_named_with_what_it_held(finished: Path) -> None:
    best = call(finished, "show", "--json").json["best"]
    file = finished / ".ksearch/blobs" / best["solution"][:2] / best["solution"][2:]
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    done = call(finished, "export", "--to", "best")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    place = f"{best['solution'][:2]}/{best['solution'][2:]}"
    assert f"is damaged in .ksearch/blobs: restore {place} from a copy of the folder, then go on" in done.err
    assert done.err.endswith("; it held scripted-1: its best program, the program of attempt 3 (n4, round 3)\n")
    file.unlink()
    assert "is missing in .ksearch/blobs" in call(finished, "export", "--to", "best").err
    file.write_bytes(whole)
    assert call(finished, "export", "--to", "best").code == 0


def test_a_truncated_database_is_told_and_a_copy_restores_it(finished: Path) -> None:
    file = finished / ".ksearch/ksearch.sqlite"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    for arguments in (("resume", "--evaluations", 6), ("log",), ("branch", "--at", 1), ("prune",)):
        done = call(finished, *arguments)
        assert (done.code, len(done.err.splitlines())) == (1, 1), done
        assert "ksearch.sqlite is damaged: restore it from a copy" in done.err
        assert "programs and replies are safe in the blobs beside it" in done.err
    file.write_bytes(whole)
    done = call(finished, "resume", "--evaluations", 5, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["spend"]["evaluations"] >= 4


def test_a_database_that_was_emptied_is_not_taken_for_a_new_one(finished: Path) -> None:
    home = finished / ".ksearch"
    for file in home.glob("ksearch.sqlite-*"):
        file.unlink()
    whole = (home / "ksearch.sqlite").read_bytes()
    (home / "ksearch.sqlite").write_bytes(b"")
    for arguments in (("list",), ("resume",), RUN, ("prune",)):
        done = call(finished, *arguments)
        assert (done.code, len(done.err.splitlines())) == (1, 1)
        assert "is empty and was not: restore it from a copy" in done.err
    (home / "ksearch.sqlite").write_bytes(whole)
    assert call(finished, "show", "--json").json["best"]["ratio"] == 2.0


def test_a_row_that_is_damaged_names_the_database(finished: Path) -> None:
    with sqlite3.connect(finished / ".ksearch/ksearch.sqlite") as connection:
        connection.execute("UPDATE threads SET reason = CAST(x'ff' AS TEXT)")
    connection.close()
    done = call(finished, "list")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "restore it from a copy" in done.err
