"""`python -m evaluators.worker BUNDLE`: judge the programs of a bundle on this machine, without anything of ours."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from evaluators.worker import gpus
from evaluators.worker.bundle import Bundle, BundleFault, read_bundle
from evaluators.worker.crew import Crew, Stopped, Supervised
from evaluators.worker.failure import HarnessFault, TaskFault
from evaluators.worker.results import Outcome, ResultFault, read_result
from evaluators.worker.trip import Trip

DONE, FAILED, USAGE = 0, 1, 2
_MOST_JOBS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge bundles, one after the other. Return 0: done, 1: something could not be judged, 2: usage."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluators.worker",
        description="Judge the programs of bundles on this machine and write a result beside each.",
        epilog="Needs Python 3.11 or newer, numpy and torch; triton, g++ or nvcc for Triton, C++ or CUDA programs.",
    )
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE", help="a zip file, or the unpacked folder")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the result goes (of one bundle)")
    parser.add_argument(
        "--jobs", type=int, default=_jobs(), metavar="N", help="builds and checks at the same time [%(default)s]"
    )
    parser.add_argument(
        "--gpus",
        default="cuda",
        metavar="NAMES",
        help="for GPU tasks, such as 0,1 [the first visible one]",
    )
    chosen = parser.parse_args(arguments)
    if chosen.out is not None and len(chosen.bundles) > 1:
        parser.error("--out names the result of one bundle; there are several")
    if chosen.jobs < 1:
        parser.error("--jobs must be at least 1")
    try:
        names = [gpus.visible(name.strip()) for name in chosen.gpus.split(",")]
    except ValueError as error:
        parser.error(f"--gpus: {error}")
    return max(_visit(path, chosen.out or result_place(path), chosen.jobs, names) for path in chosen.bundles)


def result_place(bundle: Path) -> Path:
    """Return where a bundle's result goes when nothing else is said: beside it."""
    path = bundle.absolute()
    return path.with_name(f"{path.name.removesuffix('.zip')}.result.json")


def _visit(path: Path, result: Path, jobs: int, names: Sequence[str]) -> int:
    try:
        bundle = read_bundle(path)
        known = _known(bundle, result)
        return _judge(bundle, result, known, _crew(bundle, jobs, names))
    except (BundleFault, ResultFault) as error:
        _say(f"error: {error}")
        return USAGE
    except (TaskFault, HarnessFault, OSError) as error:
        _say(f"error: {error}")
        return FAILED
    except (Stopped, KeyboardInterrupt):
        _say(f"stopped; what was judged is in {result}: the same command goes on")
        return FAILED


def _judge(bundle: Bundle, result: Path, known: Sequence[Outcome], crew: Crew) -> int:
    asked = sum(not request.moved_only for request in bundle.job.requests)
    count_text = "1 evaluation is" if asked == 1 else f"{asked} evaluations are"
    _say(f"bundle {bundle.digest[:12]} of {bundle.name}: {count_text} asked for")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: crew.stop())
    try:
        outcomes = Trip(bundle, crew, result, known, _say).run()
    finally:
        crew.close()
    left = sum(outcome.answer is None for outcome in outcomes)
    _say(f"result: {result}")
    _say(f"where the run is kept: ksearch deliver {bundle.name} {result.name}")
    if left:
        _say(f"{left} could not be judged here: repair this machine and run the same command again")
    return FAILED if left else DONE


def _crew(bundle: Bundle, jobs: int, names: Sequence[str]) -> Crew:
    """Return `jobs` supervisors, for a GPU task on each of the GPUs; no more than there is work."""
    devices = list(names) if bundle.job.device == "cuda" else [""]
    lanes = [device for _ in range(jobs) for device in devices][: max(1, len(bundle.job.requests))]
    return Crew([Supervised(bundle.modules, bundle.job.memory_bytes, device) for device in lanes])


def _known(bundle: Bundle, result: Path) -> Sequence[Outcome]:
    """Return what an earlier trip with this bundle has written. Raises ResultFault when the file is another's."""
    if not result.exists():
        return ()
    try:
        earlier = read_result(result.read_bytes())
    except ResultFault as error:
        raise ResultFault(f"{result} {error}; move it away, or name another file with --out") from error
    if earlier.bundle != bundle.digest:
        raise ResultFault(f"{result} is the result of another bundle: name another file with --out")
    return earlier.outcomes


def _jobs() -> int:
    return max(1, min(_MOST_JOBS, len(os.sched_getaffinity(0)) // 2))


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
