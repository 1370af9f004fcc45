"""The official protocol of the problem: `eval.py MODE CASES`, with the verdict on the pipe POPCORN_FD.

test: each case is generated, computed and checked. benchmark and leaderboard, per case: one checked call, then up to
100 timed ones by device events, until the standard error is below 0.1 % of the mean, or mean x runs exceeds the cap, or
two minutes have passed. benchmark repeats one data object (cap 10 s); leaderboard makes and checks fresh data each time
(cap 30 s, seeds in steps of 13). A worker process makes all the calls; this one writes the pipe.
"""

import math
import multiprocessing
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

PIPE_FAILURE, WRONG, BAD_CASE = 111, 112, 113
MOST_REPEATS, MOST_SECONDS, RELATIVE_ERROR = 100, 120.0, 0.001
CAP_NS = {"benchmark": 10e9, "leaderboard": 30e9}
WARM_UP_NS = 1e8
SEED_STEP = 13


def parse_case(line):
    """Return one line's arguments: whole numbers as such, everything else as words. Raises ValueError."""
    case = {}
    for part in line.strip().split(";"):
        name, colon, value = part.strip().partition(":")
        value = value.strip()
        if not colon or not name.strip().isidentifier() or not re.fullmatch(r"-?\d+|[A-Za-z][A-Za-z0-9_]*", value):
            raise ValueError(f"invalid case {part.strip()!r}")
        case[name.strip()] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return case


def combined(seed, secret):
    """Return a case's seed with the secret one in it: Cantor's pairing."""
    return seed + (seed + secret) * (seed + secret + 1) // 2


def statistics_of(durations):
    """Return runs, mean, std (n - 1), err (of the mean), best and worst, nanoseconds."""
    runs = len(durations)
    mean = sum(durations) / runs
    std = math.sqrt(sum((item - mean) ** 2 for item in durations) / (runs - 1)) if runs > 1 else 0.0
    return {
        "runs": runs,
        "mean": mean,
        "std": std,
        "err": std / math.sqrt(runs),
        "best": min(durations),
        "worst": max(durations),
    }


def is_enough(index, durations, wall_s, cap_ns):
    """Return whether to stop after the repeat number `index` (from 0)."""
    if index <= 1:
        return False
    found = statistics_of(durations)
    return (
        found["err"] / found["mean"] < RELATIVE_ERROR or found["mean"] * found["runs"] > cap_ns or wall_s > MOST_SECONDS
    )


def clone(data):
    """Return a copy of nested data whose tensors are copies."""
    import torch

    if isinstance(data, torch.Tensor):
        return data.clone()
    if isinstance(data, dict):
        return {key: clone(item) for key, item in data.items()}
    return type(data)(clone(item) for item in data) if isinstance(data, (tuple, list)) else data


def synchronize():
    """Wait for the device."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed_ns(call):
    """Return what `call` returns, and its time: between device events where there is a device, else by the clock."""
    import torch

    if not torch.cuda.is_available():
        began = time.perf_counter_ns()
        return call(), max(1, time.perf_counter_ns() - began)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    output = call()
    end.record()
    torch.cuda.synchronize()
    return output, start.elapsed_time(end) * 1e6


def test_case(case):
    """Return (right, message) for one case."""
    from reference import check_implementation, generate_input
    from submission import custom_kernel

    data = generate_input(**case)
    output = custom_kernel(clone(data))
    synchronize()
    return check_implementation(data, output)


def time_case(case, recheck, cap_ns):
    """Return a case's statistics, or the message of a wrong result."""
    from reference import check_implementation, generate_input
    from submission import custom_kernel

    data, case = generate_input(**case), dict(case)
    kept = clone(data)
    right, message = check_implementation(kept, custom_kernel(data))
    if not right:
        return message
    durations, began = [], time.perf_counter()
    for index in range(MOST_REPEATS):
        if recheck:
            case["seed"] = case.get("seed", 0) + SEED_STEP
            data = generate_input(**case)
            kept = clone(data)
        synchronize()
        output, took = timed_ns(lambda data=data: custom_kernel(data))
        if recheck:
            right, message = check_implementation(kept, output)
            if not right:
                return message
        del output
        durations.append(took)
        if is_enough(index, durations, time.perf_counter() - began, cap_ns):
            break
    return statistics_of(durations)


def run_tests(log, pool, cases):
    """Write the verdict on every case and return the exit code."""
    log("test-count", len(cases))
    passed = True
    for number, case in enumerate(cases):
        log(f"test.{number}.spec", _spec(case))
        right, message = pool.submit(test_case, case).result()
        passed = passed and right
        log(f"test.{number}.status", "pass" if right else "fail")
        if message:
            log(f"test.{number}.message" if right else f"test.{number}.error", _one_line(message))
    log("check", "pass" if passed else "fail")
    return 0 if passed else WRONG


def run_timings(log, pool, cases, mode):
    """Write the times of every case and return the exit code; the first wrong result ends it."""
    pool.submit(time_case, cases[0], False, WARM_UP_NS).result()
    log("benchmark-count", len(cases))
    for number, case in enumerate(cases):
        log(f"benchmark.{number}.spec", _spec(case))
        found = pool.submit(time_case, case, mode == "leaderboard", CAP_NS[mode]).result()
        if isinstance(found, str):
            log(f"benchmark.{number}.status", "fail")
            log(f"benchmark.{number}.error", _one_line(found))
            log("check", "fail")
            return WRONG
        for key, value in found.items():
            log(f"benchmark.{number}.{key}", value)
    log("check", "pass")
    return 0


def _spec(case):
    return "; ".join(f"{key}: {value}" for key, value in case.items())


def _one_line(message):
    return " ".join(str(message).split())[:1000]


def main():
    """Run one mode and return the exit code."""
    descriptor, secret = os.environ.pop("POPCORN_FD", None), os.environ.pop("POPCORN_SEED", None)
    if descriptor is None:
        return PIPE_FAILURE
    if len(sys.argv) < 3 or sys.argv[1] not in ("test", *CAP_NS):
        return 2
    os.set_inheritable(int(descriptor), False)
    try:
        with open(sys.argv[2]) as file:
            cases = [parse_case(line) for line in file if line.strip()]
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return BAD_CASE
    for case in cases if secret is not None else []:
        if "seed" in case:
            case["seed"] = combined(case["seed"], int(secret))
    fresh = multiprocessing.get_context("spawn")
    with os.fdopen(int(descriptor), "w") as pipe, ProcessPoolExecutor(1, fresh) as pool:

        def log(key, value):
            pipe.write(f"{key}: {value}\n")
            pipe.flush()

        try:
            if sys.argv[1] == "test":
                return run_tests(log, pool, cases)
            return run_timings(log, pool, cases, sys.argv[1])
        except (BrokenProcessPool, SystemExit):  # sys.exit() in the worker is raised here
            print("the program ended its process", file=sys.stderr)  # noqa: T201
            return 1
        finally:
            for worker in multiprocessing.active_children():
                worker.kill()  # it would wait for threads that the program has left


if __name__ == "__main__":
    sys.exit(main())
