"""`evaluator = deferred`: a run pauses with a bundle, a bare interpreter judges it, and the run goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkpoints.history import read_record
from evaluators.bundling import bundled_job, pack
from evaluators.worker.bundle import Request, read_bundle
from evaluators.worker.results import Outcome, Result, read_result, write_result
from tests.bare import link_packages
from tests.cli.conftest import Done, call
from tests.evaluators import tiny

TASK = """
schema = 1
name = "tiny"
description = "Row softmax."
axes = ["rows", "cols"]
timeout_s = 20.0
inputs = { x = { shape = ["rows", "cols"], dtype = "float32" } }
outputs = { y = { shape = ["rows", "cols"], dtype = "float32" } }
tolerance = { rtol = 1e-4, atol = 1e-6 }
contracts = { cpp = { entry_point = "run", binding = "plain_c", flags = ["-O2"], seed = ["seed.cpp"] } }

[[workloads]]
name = "small"
axes = { rows = 64, cols = 512 }

[[workloads]]
name = "odd"
split = "held_out"
axes = { rows = 7, cols = 33 }
"""
SEED = """
// ksearch: flags = -O2
// ksearch: knob PASSES = 8 | 1 ; Look for the maximum once
// ksearch: knob SPIN = 8 | 0 ; Leave out what does nothing
#include <cmath>
#include <cstdint>
#define PASSES 8
#define SPIN 8

extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* a = x + r * cols;
        float* b = y + r * cols;
        float sum = 0;
        volatile float top = a[0];
        for (int pass = 0; pass < PASSES + SPIN; ++pass)
            for (int64_t c = 0; c < cols; ++c) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < cols; ++c) sum += b[c] = expf(a[c] - top);
        for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
    }
}
"""
RUN = ("run", "./tiny", "--evaluator", "deferred", "--evaluations", 2, "--width", 2)


def write_task(folder: Path) -> None:
    (folder / "tiny").mkdir()
    (folder / "tiny" / "task.toml").write_text(TASK)
    (folder / "tiny" / "reference.py").write_text(tiny.SOFTMAX_REFERENCE)
    (folder / "tiny" / "seed.cpp").write_text(SEED)


@dataclass(frozen=True)
class Host:
    """A machine to which bundles are carried: torch, numpy, and an interpreter without site packages."""

    folder: Path
    packages: Path

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-S", "-P", "-W", "error", *map(str, arguments)]

    def environment(self, **changes: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.packages), **changes}

    def run(self, *arguments: object, **changes: str) -> Done:
        done = subprocess.run(
            self.command(*arguments), cwd=self.folder, env=self.environment(**changes), capture_output=True, text=True,
            timeout=500,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def carry(self, bundle: str | Path) -> Path:
        return Path(shutil.copy(bundle, self.folder))


@pytest.fixture(scope="session")
def _packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    link_packages(folder)
    return folder


@pytest.fixture
def host(tmp_path: Path, _packages: Path) -> Host:
    (tmp_path / "host").mkdir()
    return Host(tmp_path / "host", _packages)


def results(file: Path) -> Result:
    return read_result(file.read_bytes())


@pytest.mark.timeout(900)
def test_a_search_without_an_evaluator_of_its_own(tmp_path: Path, host: Host) -> None:
    write_task(tmp_path)
    here: Callable[..., Done] = lambda *arguments: call(tmp_path, *arguments)  # noqa: E731
    done = here(*RUN, "--json")
    assert done.code == 3, done.err
    waits = done.json["waits_for"]
    assert waits["evaluations"] == 1
    assert "waiting   1 evaluation by another machine: ksearch deliver tiny-1\n" in here("show").out
    bundle = host.carry(tmp_path / waits["bundle"])
    judged = host.run(bundle.name)
    assert judged.code == 0, judged.err
    assert "(seed, round 0): passed" in judged.err
    result = host.folder / waits["result"]

    _refusals(tmp_path, host, here, result)
    done = here("deliver", "tiny-1", result, "--json")
    assert done.code == 3, done.err
    assert done.json["best"]["ratio"] is not None, "the seed's figure has arrived"
    waits = done.json["waits_for"]
    assert waits["evaluations"] == 2, "both branches of the fan-out wait, in one bundle"
    again = here("deliver", "tiny-1", result)
    assert (again.code, "was delivered to tiny-1 before: nothing in it is new" in again.err) == (2, True)
    assert here("deliver", "tiny-1", "--write", "elsewhere", "--json").json["digest"] == waits["digest"]

    # A trip that is cut short leaves what it has; what is delivered of it counts, and the rest goes on waiting.
    bundle = host.carry(tmp_path / waits["bundle"])
    _cut_short(host, bundle)
    result = host.folder / waits["result"]
    (first,) = results(result).outcomes
    done = here("deliver", "tiny-1", result, "--json")
    assert done.code == 3, done.err
    assert done.json["waits_for"]["evaluations"] == 1
    judged = host.run(bundle.name, "--jobs", 2)
    assert judged.code == 0, judged.err
    outcomes = results(result).outcomes
    assert outcomes[0] == first, "what was judged before is not judged again"
    roles = [outcome.request.role for outcome in outcomes]
    assert roles[:2] == ["evaluator", "evaluator"]
    assert set(roles[2:]) == {"certification"}, "winners are certified in the same trip"
    done = here("deliver", "tiny-1", result, "--json")
    assert done.code == 0, done.err + done.out
    _finished(tmp_path, done.json)


def _refusals(tmp_path: Path, host: Host, here: Callable[..., Done], result: Path) -> None:
    """What is no result of this run is refused in one line, and the run goes on waiting."""
    text = result.read_text()
    cut, edited, foreign = (host.folder / name for name in ("cut.json", "edited.json", "foreign.json"))
    cut.write_text(text[: len(text) // 2])
    edited.write_text(text.replace('"status": "passed"', '"status": "timeout"', 1))
    foreign.write_bytes(_foreign(host))
    for file, words in (
        (cut, "is not the whole of a result"),
        (edited, "was changed since it was written"),
        (foreign, "which no run here has written"),
        (host.folder / "none.json", "cannot be read"),
        (tmp_path / "tiny" / "task.toml", "is not the whole of a result"),
    ):
        done = here("deliver", "tiny-1", file)
        assert (done.code, words in done.err) == (2, True), (file, done.err)
        assert len(done.err.splitlines()) == 1
    assert here("run", "./tiny", "--evaluator", "deferred", "--evaluations", 1).code == 3
    done = here("deliver", "tiny-2", result)
    assert (done.code, "belongs to tiny-1: ksearch deliver tiny-1" in done.err) == (2, True)
    assert [entry for entry in read_record(tmp_path / ".ksearch", "tiny-1").entries if entry.key.role == "seed"] == []


def _foreign(host: Host) -> bytes:
    """A whole result, of a bundle that somebody else wrote."""
    job = job_of([tiny.cpp("#error no\n")], "check")
    file = host.folder / "foreign.zip"
    file.write_bytes(pack("uuid", "other-1", job).content)
    assert host.run(file.name).code == 0
    return (host.folder / "foreign.result.json").read_bytes()


def _cut_short(host: Host, bundle: Path) -> None:
    process = subprocess.Popen(
        host.command(bundle.name, "--jobs", 1), cwd=host.folder, env=host.environment(), stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "(evaluator, round 1" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 1, err
    assert "the same command goes on" in err


def _finished(tmp_path: Path, shown: dict[str, Any]) -> None:
    assert (shown["status"], shown["spend"]["evaluations"], shown["waits_for"]) == ("finished", 2, None)
    assert shown["best"]["certified"]
    assert shown["best"]["node"] != "root", "a program that looks once for the maximum beats one that looks 16 times"
    assert shown["spend"]["device_s"] > 0
    assert shown["spend"]["unknown_calls"] == 0
    record = read_record(tmp_path / ".ksearch", "tiny-1")
    assert all(entry.calls == 1 and entry.result is not None for entry in record.entries)
    assert "cpu" in str(shown["environment"]).lower() or shown["environment"].count("|") == 5


def job_of(programs: Sequence[Any], effort: str) -> Any:
    solutions = {program.digest: program for program in programs}
    requests = [Request("evaluator", 1, at, 1, 0, effort, digest, None) for at, digest in enumerate(solutions, 1)]
    return bundled_job(tiny.softmax(), solutions, requests, None, "", 0.03, 4 << 30)


def test_a_figure_in_doubt_ends_no_trip(host: Host) -> None:
    """It is certified; so is what still beats it then, against it."""
    slow = tiny.cpp(tiny.SOFTMAX_CPP.replace("top = a[0],", "top = a[0] + 0 * expf(a[1]),"))
    job = job_of([tiny.GOOD_CPP, slow], "search")
    packed = pack("uuid", "run-1", job)
    file, result = host.folder / "bundle.zip", host.folder / "bundle.result.json"
    file.write_bytes(packed.content)
    assert host.run(file.name).code == 0
    known = {outcome.request: outcome.answer for outcome in results(result).outcomes}
    requests = job.requests
    for request, figure, doubt in zip(requests, (1000.0, 500.0), ("too fast", ""), strict=True):
        answer = known[request]
        assert answer is not None
        answer["verdict"]["programs"][0].update(objective={"value": figure, "low": figure, "high": figure}, doubt=doubt)
    write_result(result, packed.digest, [Outcome(request, known[request]) for request in requests], 1.0)
    assert host.run(file.name).code == 0
    certified = [outcome.request for outcome in results(result).outcomes if outcome.request.role == "certification"]
    assert [(request.solution, request.rival) for request in certified] == [
        (tiny.GOOD_CPP.digest, None),
        (slow.digest, tiny.GOOD_CPP.digest),
    ]


PEEPING = """
import os

def run(x, y):
    seen = []
    for folder in FOLDERS:
        for top, _, names in os.walk(folder):
            for name in names:
                try:
                    text = open(os.path.join(top, name), "rb").read()
                except OSError:
                    continue
                if b"def reference" in text or name.endswith((".zip", ".json")):
                    seen.append(os.path.join(top, name))
    if seen:
        raise RuntimeError(f"saw {seen}")
    y.copy_(x.softmax(1))
"""


def test_a_program_sees_neither_the_bundle_nor_the_result(tmp_path: Path, host: Host) -> None:
    folders = f"FOLDERS = {[str(host.folder), tempfile_folder()]!r}\n"
    job = job_of([tiny.python(folders + PEEPING)], "check")
    file = host.folder / "bundle.zip"
    file.write_bytes(pack("uuid", "run-1", job).content)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(host.folder / "unpacked")
    judged = host.run("-m", "evaluators.worker", "unpacked", PYTHONPATH=f"{host.folder}/unpacked:{host.packages}")
    assert judged.code == 0, judged.err
    (outcome,) = results(host.folder / "unpacked.result.json").outcomes
    assert outcome.answer is not None
    if "landlock" not in outcome.answer["environment"]["sandbox"]:
        pytest.skip("this machine has no Landlock, which the record says")
    program = outcome.answer["verdict"]["programs"][0]
    assert program["status"] == "passed", program["message"]


def tempfile_folder() -> str:
    return os.environ.get("TMPDIR", "/tmp")


def test_a_machine_that_lacks_something_blames_no_program(tmp_path: Path, host: Host) -> None:
    job = job_of([tiny.GOOD_CPP], "check")
    file = host.folder / "bundle.zip"
    file.write_bytes(pack("uuid", "run-1", job).content)
    judged = host.run(file.name, PATH=str(tmp_path))
    assert judged.code == 1
    (outcome,) = results(host.folder / "bundle.result.json").outcomes
    assert (outcome.answer, "g++ was not found" in outcome.failed) == (None, True)
    again = host.run(file.name)
    assert again.code == 0, again.err
    (outcome,) = results(host.folder / "bundle.result.json").outcomes
    assert outcome.answer is not None


def test_bundles_are_whole_or_refused(tmp_path: Path, host: Host) -> None:
    job = job_of([tiny.GOOD_CPP], "check")
    packed = pack("uuid", "run-1", job)
    assert packed == pack("uuid", "run-1", job), "the same content, the same bytes"
    file = tmp_path / "bundle.zip"
    file.write_bytes(packed.content)
    assert (read_bundle(file).digest, read_bundle(file).job) == (packed.digest, job)
    folder = host.folder / "unpacked"
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    content = json.loads((folder / "job.json").read_text())
    content["margin"] = 0.5
    (folder / "job.json").write_text(json.dumps(content))
    (host.folder / "cut.zip").write_bytes(packed.content[:-100])
    (host.folder / "bundle.zip").write_bytes(packed.content)
    (host.folder / "bundle.result.json").write_text("{}")
    for arguments, words in (
        (("unpacked",), "job.json was changed since the bundle was written"),
        (("cut.zip",), "is not a whole zip file"),
        (("none.zip",), "there is no file"),
        (("bundle.zip",), "bundle.result.json is not a result"),
        (("bundle.zip", "cut.zip", "--out", "one.json"), "--out names the result of one bundle"),
    ):
        done = host.run("-m", "evaluators.worker", *arguments, PYTHONPATH=f"{folder}:{host.packages}")
        assert (done.code, words in done.err) == (2, True), (arguments, done.err)
        assert "Traceback" not in done.err
