"""The pure part: what is said, from records."""

from typing import Any

import pytest

from evaluators.evaluation import Evaluation, Measurement, WorkloadResult
from evaluators.objective import Objective, Value
from evaluators.worker.status import Status
from graph.report.causes import Machine, causes, shortfall
from graph.report.diagnosis import Facts, checks
from graph.report.events import event_line
from graph.report.figures import against_baseline, duration, one_line, quantity, ratio_to_baseline, shown
from graph.report.progress import Progress, advanced, from_state, pace, progress_lines
from graph.report.tree import tree_rows
from graph.world_model import Evidence, Intent, Node, WorldModel

IDLE = Machine(cores=2, load=0.3, avx2=True, compiler="g++ 12")


def value(middle: float) -> Value:
    return Value(value=middle, low=middle * 0.99, high=middle * 1.01)


def evaluation(objective: Value, *ratios: float) -> Evaluation:
    results = [
        WorkloadResult(
            workload=str(number),
            status=Status.PASSED,
            measurement=Measurement(
                baseline_ms=8.0, candidate_ms=8.0 / ratio, ratio=value(ratio), estimates=5, repeats=1
            ),
        )
        for number, ratio in enumerate(ratios)
    ]
    facts: dict[str, Any] = {"solution": "s", "task": "t", "effort": "search", "protocol": "p", "tier": "timed"}
    return Evaluation(status=Status.PASSED, objective=objective, workloads=tuple(results), **facts)


def test_the_ratio_is_above_one_for_better_whatever_the_objective() -> None:
    assert ratio_to_baseline(Objective(), evaluation(value(2.0), 1.0, 4.0)) == value(2.0)
    latency = Objective(name="latency", goal="min", unit="ms")
    ratio = ratio_to_baseline(latency, evaluation(value(3.5), 1.0, 4.0))
    assert ratio is not None
    assert ratio.value == pytest.approx(2.0)
    assert (ratio.low, ratio.high) == (pytest.approx(1.98), pytest.approx(2.02))
    assert ratio_to_baseline(latency, evaluation(value(3.5))) is None


def test_figures() -> None:
    assert quantity(1.7249, "x") == "1.72x"
    assert quantity(3.414, "ms") == "3.41 ms"
    assert shown(value(2.0), "x") == "2.00x (1.98 to 2.02)"
    assert shown(None, "x") == "not measured"
    assert against_baseline(value(2.0)) == "2.00x faster than the baseline (1.98 to 2.02)"
    assert against_baseline(value(0.5)) == "2.00x slower than the baseline (0.49 to 0.51)"
    assert against_baseline(value(1.001)).startswith("as fast as the baseline")
    assert [duration(seconds) for seconds in (0.2, 59, 60, 125, 3600, 7500)] == [
        "0 s", "59 s", "1 min", "2 min 5 s", "1 h", "2 h 5 min",
    ]  # fmt: skip


def test_text_from_a_model_cannot_move_the_cursor() -> None:
    assert one_line("a\x1b[2Jb\r\nc\x00") == "a [2Jb c"
    assert len(one_line("x" * 500)) == 160


def test_causes() -> None:
    assert causes(IDLE, "cpp") == ()
    assert causes(Machine(2, 0.3, True, ""), "python") == ()
    (compiler,) = causes(Machine(2, 0.3, True, ""), "cpp")
    assert compiler.startswith("no compiler")
    (vectors,) = causes(Machine(2, 0.3, False, "g++"), "cpp")
    assert vectors.startswith("no AVX2")
    (busy,) = causes(Machine(2, 1.7, True, "g++"), "cpp")
    assert busy.startswith("a busy machine")
    assert causes(Machine(2, 1.6, True, "g++"), "cpp") == ()


def test_a_shortfall_names_its_causes_or_says_that_none_is_known() -> None:
    assert shortfall(1.8, 1.525, ("no AVX2: ...",)) == ["required 1.80x, reached 1.52x", "cause: no AVX2: ..."]
    lines = shortfall(1.8, None, ())
    assert lines[0] == "required 1.80x, reached nothing that passed"
    assert "none of the known causes" in lines[1]


EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"event": "thread", "thread": "softmax-1", "uuid": "u", "task": "softmax"}, "softmax-1: task softmax, 9 evalua"),
    (
        {"event": "seed", "status": "passed", "message": "", "objective": value(1).model_dump()},
        "seed program: passed 1",
    ),
    ({"event": "selected", "cycle": 1, "node": "n1", "title": "Unroll"}, "cycle 1: n1 Unroll"),
    (
        {"event": "result", "cycle": 1, "sample": 1, "status": "repeated", "message": "repeats 3", "objective": None},
        "cycle 1 sample 1: repeated: repeats 3",
    ),
    (
        {
            "event": "result",
            "cycle": 1,
            "sample": 2,
            "status": "passed",
            "message": "",
            "objective": value(2).model_dump(),
        },
        "cycle 1 sample 2: passed 2.00x (1.98 to 2.02)",
    ),
]


def test_events_in_words() -> None:
    for event, words in EVENTS:
        line = event_line(event, "x", 9)
        assert line is not None
        assert line.startswith(words)
    certified = {"event": "certified", "cycle": 1, "sample": 2, "message": "", "objective": value(2).model_dump()}
    accepted = {**certified, "status": "passed", "accepted": True, "versus_rival": value(1.5).model_dump()}
    assert event_line(accepted, "x", 9) == "cycle 1 sample 2: certified 2.00x (1.98 to 2.02), the new best"
    tie = {**accepted, "accepted": False, "versus_rival": value(1.01).model_dump()}
    assert str(event_line(tie, "x", 9)).endswith(
        "not certified as better; against the best so far 1.01x (1.00 to 1.02)"
    )
    failed = {**tie, "status": "wrong_values", "objective": None, "message": "held out"}
    assert str(event_line(failed, "x", 9)).endswith("failed certification, wrong_values: held out")
    assert event_line({"event": "something new"}, "x", 9) is None


def test_progress_counts_what_costs_and_knows_what_is_left() -> None:
    progress = Progress(task="softmax", unit="x", budget=9, began=0)
    for event, _ in EVENTS:
        progress = advanced(progress, event)
    assert progress.thread == "softmax-1"
    assert progress.done == 1, "a repeat costs nothing"
    assert pace(progress, 30.0) == (2.0, 240.0)
    incumbent = {"objective": value(2).model_dump()}
    progress = advanced(progress, {"event": "round", "round": 1, "evaluations": 1, "incumbent": incumbent})
    assert progress.done == 1
    lines = list(progress_lines(progress, 30.0))
    assert lines[0] == "softmax-1  round 1, 30 s"
    assert lines[1].endswith("1 of 9 evaluations, 2 a minute, about 4 min left")
    assert lines[2] == "best: 2.00x (1.98 to 2.02), as a ratio to the baseline"
    assert lines[3] == "at work: cycle 1, n1 Unroll"
    settled = advanced(progress, {"event": "settled", "cycle": 1, "node": "n1", "status": "closed"})
    assert settled.cycles == {}


def test_progress_of_a_resumed_run_starts_where_the_state_is() -> None:
    state = {
        "round": 5,
        "spend": {"evaluations": 5, "certifications": 1},
        "incumbent": None,
        "cycles": [{"id": 3, "node": "n3"}],
        "frontier": [
            {"node": "n3", "title": "At work", "priority": 0.9},
            {"node": "n4", "title": "Fuse", "priority": 0.5},
        ],
    }
    progress = from_state(Progress(task="softmax", unit="x", budget=9), state)
    assert pace(progress, 10.0) is None, "nothing was evaluated in this visit"
    assert list(progress_lines(progress, 10.0))[-2:] == ["at work: cycle 3, n3", "frontier: n4 (V 0.50) Fuse"]
    assert "best: programs have passed, but none is certified yet" in progress_lines(progress, 10.0)
    assert from_state(progress, {}) == progress


def test_a_lineage_longer_than_pythons_stack_is_drawn() -> None:
    evidence = Evidence(cycle=1, first_round=1, last_round=1, attempts=(1,), outcomes={"passed": 1}, objective=value(1))
    nodes = [
        Node(
            id=f"n{number}",
            parent=f"n{number - 1}" if number > 1 else "root",
            intent=Intent(title="Deeper", priority=0.5),
            status="closed",
            evidence=(evidence,),
        )
        for number in range(1, 1501)
    ]
    rows = list(tree_rows(WorldModel(nodes=tuple(nodes), next_node=1501), "n1500", "x"))
    assert len(rows) == 1501
    assert rows[-1].text.endswith("└╴n1500*  closed  1.00x  Deeper")


def test_checks_of_a_machine_that_lacks_everything() -> None:
    facts = Facts(
        machine=Machine(1, 4.0, False, ""),
        processor="old",
        versions={"torch": "", "triton": "", "langgraph-cli": "", "langgraph-api": ""},
        gpus=(),
        layers=(),
        all_layers={"limits": "limits"},
        evaluator_problem="torch is not installed",
        keys={"SOME_KEY": ""},
        home="runs",
        home_problem="runs cannot be written",
        free_bytes=0,
    )
    found = {check.name: check for check in checks(facts)}
    assert {name for name, check in found.items() if check.state == "problem"} == {
        "compiler", "torch", "evaluator", "folder of the runs",
    }  # fmt: skip
    assert all(check.state != "works" and check.advice for check in found.values())
