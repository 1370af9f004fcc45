"""Driver: runs a problem's own eval.py as the format's runner does, and reads its verdict from the result pipe.

The result pipe's number goes to the child as POPCORN_FD; it writes `key: value` lines. Exit codes: 0 done, 110 GPU
failure, 111 pipe failure, 112 a wrong result, 113 a bad case, 114 a timeout.
"""

import math
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMPILE_S = 120
MOST_BYTES = 1 << 20
KEPT = 16 << 10
"""Bytes of stdout and of stderr that are kept."""
EXITS = {
    110: ("illegal_access", "the GPU failed"),
    111: ("runtime_error", "the result pipe failed"),
    112: ("wrong_values", "a result is wrong"),
    113: ("runtime_error", "eval.py does not understand a case"),
    114: ("timeout", "eval.py says that it took too long"),
}
STAGES = {
    "test": ("test",),
    "benchmark": ("test", "benchmark"),
    "leaderboard": ("test", "benchmark", "leaderboard"),
}


class Failed(Exception):
    """The program failed: with a status and a message."""

    def __init__(self, status: str, message: str, log: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.log = status, message, log


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return `{"metrics", "feedback"}` or `{"failed": {"status", "message", "log"}}`.

    In leaderboard mode `searched` holds the metrics of the benchmark stage, which comes before it.

    `request`: `files` (name -> text) of the problem and the program, `main`, `submission`, `tests`, `benchmarks`,
    `ranking`, `timeouts_s`, `mode`, `secret` (a seed or None).
    """
    place = Path.cwd() / "official"
    place.mkdir()
    for name, text in request["files"].items():
        (place / name).write_text(text)
    try:
        _compile(place, request["submission"])
        results = [_stage(place, request, mode) for mode in STAGES[request["mode"]]]
        if request["mode"] == "test":
            return _tested(results[-1])
        figures = [_figures(result, request["ranking"]) for result in results[1:]]
        return figures[-1] if len(figures) == 1 else {**figures[-1], "searched": figures[0]["metrics"]}
    except Failed as failure:
        return {"failed": {"status": failure.status, "message": failure.message, "log": failure.log}}


def lines_of(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return cases as eval.py reads them: one a line, `key: value; key: value`."""
    return "".join("; ".join(f"{key}: {value}" for key, value in case.items()) + "\n" for case in cases)


def parsed(text: str) -> dict[str, str]:
    """Return the lines of the result pipe: key -> value; of two of one key the last."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def cases_of(mode: str, request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the cases of a mode; where the last counts, only that is timed."""
    if mode == "test":
        return list(request["tests"])
    benchmarks = list(request["benchmarks"])
    return benchmarks[-1:] if request["ranking"] == "last" else benchmarks


def score_ns(means: Sequence[float], ranking: str) -> float:
    """Return the figure that counts, nanoseconds."""
    if ranking == "geom":
        return math.exp(statistics.fmean(map(math.log, means)))
    return statistics.fmean(means) if ranking == "mean" else means[-1]


def _compile(place: Path, submission: str) -> None:
    """Run the program's module once, so that what it builds when it is imported is built."""
    done = _run(place, [submission], COMPILE_S, {}, None)
    if done.returncode != 0:
        raise Failed("import_error", _last_line(done.stderr) or f"exit code {done.returncode}", done.stderr)


def _stage(place: Path, request: Mapping[str, Any], mode: str) -> dict[str, str]:
    cases = place / f"cases-{mode}.txt"
    cases.write_text(lines_of(cases_of(mode, request)))
    environment = {} if request["secret"] is None else {"POPCORN_SEED": str(request["secret"])}
    reading, writing = os.pipe()
    found = bytearray()
    reader = threading.Thread(target=_collect, args=(reading, found), daemon=True)
    reader.start()
    timeout_s = request["timeouts_s"][mode]
    try:
        done = _run(place, [request["main"], mode, str(cases)], timeout_s, environment, writing)
    finally:
        os.close(writing)
    reader.join(5.0)
    results = parsed(bytes(found).decode(errors="replace"))
    _judge(mode, done, results)
    return results


def _judge(mode: str, done: "subprocess.CompletedProcess[str]", results: Mapping[str, str]) -> None:
    """Raise Failed unless the stage passed: its check says so and it ended as it should."""
    log = (done.stdout + done.stderr)[-KEPT:]
    if done.returncode not in (0, 112):
        status, words = EXITS.get(done.returncode, ("crashed", f"eval.py ended with {done.returncode}"))
        raise Failed(status, f"{mode}: {words}: {_last_line(done.stderr)}", log)
    if results.get("check") == "pass" and done.returncode == 0:
        return
    failed = [key for key, value in results.items() if key.endswith(".status") and value == "fail"]
    place = failed[0].removesuffix(".status") if failed else ""
    errors = [results.get(f"{place}.error", ""), *(value for key, value in results.items() if key.endswith(".error"))]
    message = next((error for error in errors if error), "its check did not pass")
    where = f" ({results.get(f'{place}.spec', place)})" if place else ""
    raise Failed("wrong_values", f"{mode}{where}: {message}"[:600], log)


def _run(
    place: Path, argv: list[str], timeout_s: float, more: Mapping[str, str], pipe: int | None
) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **more, "PYTHONPATH": os.pathsep.join([str(place), *sys.path])}
    if pipe is not None:
        environment["POPCORN_FD"] = str(pipe)
    try:
        done = subprocess.run(
            [sys.executable, "-S", *argv],
            cwd=place,
            env=environment,
            capture_output=True,
            timeout=timeout_s,
            pass_fds=() if pipe is None else (pipe,),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed("timeout", f"{argv[-1] if len(argv) == 1 else argv[1]}: no end within {timeout_s:g} s") from error
    kept = [stream[-KEPT:].decode(errors="replace") for stream in (done.stdout, done.stderr)]
    return subprocess.CompletedProcess(argv, done.returncode, *kept)


def _collect(reading: int, found: bytearray) -> None:
    with os.fdopen(reading, "rb") as pipe:
        while data := pipe.read1(1 << 16):
            if len(found) < MOST_BYTES:
                found += data


def _tested(results: Mapping[str, str]) -> dict[str, Any]:
    return {"metrics": {"tests": float(results.get("test-count", "0"))}, "feedback": ""}


def _figures(results: Mapping[str, str], ranking: str) -> dict[str, Any]:
    try:
        means = [float(results[f"benchmark.{number}.mean"]) for number in range(int(results["benchmark-count"]))]
        value = score_ns(means, ranking)
    except (KeyError, ValueError, IndexError, statistics.StatisticsError) as error:
        raise Failed("runtime_error", f"eval.py passed but told no usable times: {error!r}") from error
    words = {key: text for key, text in results.items() if key.startswith("benchmark.")}
    feedback = "\n".join(f"{key}: {text}" for key, text in words.items())
    return {"metrics": {ranking: value / 1e3}, "feedback": feedback[:4000]}


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:400] if lines else ""
