"""What works on a machine and what to do about the rest, from facts that `graph.cli.machine` gathers. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from graph.report.causes import Machine, causes

State = Literal["works", "missing", "problem"]
"""`missing`: something further would work with it. `problem`: a search on this machine cannot do without it."""
LITTLE_DISK = 1 << 30
"""Bytes. A run of 1,000 rounds x 4 candidates may take 100 MB; builds and logs come on top."""
SERVER = "LangGraph server"


@dataclass(frozen=True)
class Facts:
    """What was found."""

    machine: Machine
    processor: str
    versions: Mapping[str, str]
    """Package -> version; empty where it is not installed."""
    gpus: tuple[str, ...]
    """Names of the GPUs that torch can use."""
    layers: tuple[str, ...]
    """Sandbox layers that are active."""
    all_layers: Mapping[str, str]
    """Every sandbox layer -> what it does."""
    evaluator_problem: str
    """Why the local evaluator does not start; empty when it does."""
    keys: Mapping[str, str]
    """Name of a key -> where it is set (`environment`, `.env`); empty when it is not. Never its value."""
    home: str
    home_problem: str
    free_bytes: int
    """Space left where the runs are."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    advice: str = ""
    """What to do; empty when it works."""


def checks(facts: Facts) -> Iterator[Check]:
    """Yield every check, what matters most first."""
    yield _processor(facts)
    yield _compiler(facts)
    yield _package(facts, "torch", "problem", "pip install torch")
    yield _evaluator(facts)
    yield _sandbox(facts)
    yield _load(facts)
    yield _home(facts)
    yield _disk(facts)
    yield _gpu(facts)
    yield _package(facts, "triton", "missing", "pip install triton (Linux); only programs in Triton need it")
    yield from _keys(facts)
    yield _server(facts)


def diagnosis(facts: Facts) -> dict[str, Any]:
    """Return the format of `ksearch doctor --json`."""
    found = list(checks(facts))
    return {
        "ok": all(check.state != "problem" for check in found),
        "checks": [asdict(check) for check in found],
        "machine": asdict(facts.machine),
        "sandbox": list(facts.layers),
    }


def _processor(facts: Facts) -> Check:
    found = f"{facts.processor}, {facts.machine.cores} cores"
    if facts.machine.avx2:
        return Check("processor", "works", found)
    return Check("processor", "missing", f"{found}, no AVX2", "speed-ups will be smaller than the ones we state")


def _compiler(facts: Facts) -> Check:
    if facts.machine.compiler:
        return Check("compiler", "works", facts.machine.compiler)
    advice = "install it: apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora); Python programs go without"
    return Check("compiler", "problem", "g++ was not found", advice)


def _package(facts: Facts, name: str, otherwise: State, advice: str) -> Check:
    version = facts.versions[name]
    return Check(name, "works", version) if version else Check(name, otherwise, "not installed", advice)


def _evaluator(facts: Facts) -> Check:
    if not facts.evaluator_problem:
        return Check("evaluator", "works", "starts, and judges programs in processes of their own")
    return Check("evaluator", "problem", facts.evaluator_problem, "put that right; nothing can be measured without it")


def _sandbox(facts: Facts) -> Check:
    if facts.evaluator_problem:
        return Check("sandbox", "missing", "not known while the evaluator does not start", "repair the evaluator first")
    lacking = [f"{name} ({what})" for name, what in facts.all_layers.items() if name not in facts.layers]
    active = f"{', '.join(facts.layers)}"
    needed = [text for text in lacking if not text.startswith("user_namespace ")]
    if not needed:
        return Check("sandbox", "works", active)
    advice = f"not on this host: {'; '.join(needed)}. Do not run programs from strangers here"
    return Check("sandbox", "missing", active, advice)


def _load(facts: Facts) -> Check:
    busy = next((cause for cause in causes(facts.machine, None) if cause.startswith("a busy machine")), "")
    found = f"{facts.machine.load:.1f} processes on {facts.machine.cores} cores"
    return Check("load", "missing", found, busy) if busy else Check("load", "works", found)


def _home(facts: Facts) -> Check:
    if not facts.home_problem:
        return Check("folder of the runs", "works", facts.home)
    advice = "make it writable, or choose another one with --home or KSEARCH_HOME"
    return Check("folder of the runs", "problem", facts.home_problem, advice)


def _disk(facts: Facts) -> Check:
    found = f"{facts.free_bytes / 2**30:.1f} GiB free"
    if facts.free_bytes >= LITTLE_DISK:
        return Check("disk", "works", found)
    return Check("disk", "missing", found, "free at least 1 GiB; a run stops, and can be resumed, when none is left")


def _gpu(facts: Facts) -> Check:
    if facts.gpus:
        return Check("GPU", "works", ", ".join(facts.gpus))
    return Check("GPU", "missing", "torch sees none", "CPU tasks work without; GPU tasks need a GPU and a torch for it")


def _keys(facts: Facts) -> Iterator[Check]:
    for name, place in facts.keys.items():
        if place:
            yield Check(name, "works", f"set ({place})")
        else:
            yield Check(name, "missing", "not set", f"export {name}=..., or put it into .env, to use these models")


def _server(facts: Facts) -> Check:
    lacking = [name for name in ("langgraph-cli", "langgraph-api") if not facts.versions[name]]
    if not lacking:
        return Check(SERVER, "works", f"langgraph-cli {facts.versions['langgraph-cli']}; start it with `make dev`")
    return Check(SERVER, "missing", f"no {', '.join(lacking)}", "pip install -e '.[studio]' to use the Studio")
