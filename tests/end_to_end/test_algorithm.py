"""Algorithm 1 as the `paper` preset runs it, with planner, coder and evaluator scripted: the trace, line by line."""

from typing import Any

from tests.end_to_end.searching import Search, intent, under


async def test_trace_of_algorithm_1(search: Search) -> None:
    """Argmax V; K non-improvements in a row end a cycle; evidence, then edits; the budget ends the search."""
    script = {
        "proposals": [
            {"edits": [intent("Tile", 0.5), intent("Vectorise", 0.9), intent("Unroll", 0.4)]},
            {
                "edits": [
                    under("n2", "Fuse", 0.8),
                    {"kind": "update", "node": "n1", "priority": 0.3},
                    {"kind": "prune", "node": "n3", "reason": "the compiler does it"},
                ]
            },
            {"edits": [under("n4", "Prefetch", 0.7)]},
        ],
        "cycles": [
            # build error, first pass, worse, better, then K = 3 in a row without improvement
            ["build_error", 1.2, 1.1, 1.5, 1.5, "wrong_values", 1.52],
            # nothing passes: the node fails
            ["timeout", None, "crashed"],
            [1.1],
        ],
    }
    done = await search(script, stagnation=3, max_evaluations=10)
    assert done.trace() == [
        "edit: 3",
        "select n2",
        "cycle 1 sample 1: build_error",
        "cycle 1 sample 2: 1.2",
        "certify: accepted",
        "cycle 1 sample 3: 1.1",
        "cycle 1 sample 4: 1.5",
        "certify: accepted",
        "cycle 1 sample 5: 1.5",
        "cycle 1 sample 6: wrong_values",
        "cycle 1 sample 7: 1.52",
        "closed n2",
        "edit: 3",
        "select n4",
        "cycle 2 sample 1: timeout",
        "cycle 2 sample 2: unusable",
        "cycle 2 sample 3: crashed",
        "failed n4",
        "edit: 1 rejected",
        "select n1",
        "cycle 3 sample 1: 1.1",
        "closed n1",
    ]
    state = done.ended.state
    assert state["stop"] == {"reason": "budget", "detail": "10 of 10 evaluations are spent"}
    assert state["round"] == 11
    assert state["incumbent"] is not None
    assert state["incumbent"]["objective"]["value"] == 1.5
    assert state["incumbent"]["node"] == "n2"
    node = done.model.node("n2")
    assert node.evidence[0].attempts == (1, 2, 3, 4, 5, 6, 7)
    assert node.evidence[0].outcomes == {"build_error": 1, "passed": 5, "wrong_values": 1}
    assert node.evidence[0].gain == 1.52
    assert done.model.node("n4").reason.startswith("no program passed (1 crashed, 1 timeout, 1 unusable)")
    assert done.edits[-1]["reasons"] == [
        "edit 1 (insert): node n4 is failed; insert under the root, an open or a closed node"
    ]


async def test_seed_is_the_first_incumbent_and_certification_decides(search: Search) -> None:
    """A challenger that fails certification is downgraded; the next best is tried; a tie does not win."""
    script = {
        "proposals": [{"edits": [intent("A", 0.9), intent("B", 0.8)]}],
        "cycles": [
            [{"objective": 3.0, "markers": {"held_out": "wrong_values"}}, 1.02],
            [2.0, 1.99],
        ],
    }
    done = await search(script, stagnation=2, width=2, samples=1, max_evaluations=4)
    assert [line for line in done.trace() if line.startswith("certify")] == [
        "certify: wrong_values",
        "certify: accepted",
    ]
    assert done.ended.state["incumbent"] is not None
    assert done.ended.state["incumbent"]["objective"]["value"] == 2.0
    first = done.attempts[0]["result"]
    assert (first["status"], first["objective"]) == ("wrong_values", None)
    best = done.model.node("n1").evidence[0].objective
    assert best is not None
    assert best.value == 1.02


async def test_a_figure_in_doubt_is_what_its_certification_measured(search: Search) -> None:
    """Below the task's practical floor nothing is believed: neither for the incumbent nor for the plan."""

    def doubted(objective: float, certified: float) -> dict[str, Any]:
        return {"objective": objective, "markers": {"doubt": "too fast", "certified": str(certified)}}

    script = {
        "proposals": [{"edits": [intent("A", 0.9), intent("B", 0.8)]}],
        "cycles": [[doubted(9.0, 1.2), doubted(1.1, 1.0)], [doubted(8.0, 0.9), 2.0]],
    }
    done = await search(script, stagnation=2, width=2, samples=2, max_evaluations=4)
    # 9 is accepted as the 1.2 it is, so that it ends nothing; 8 is not; 2, never in doubt, is. 1.1 beats nothing then.
    assert done.ended.state["spend"]["certifications"] == 3
    incumbent = done.ended.state["incumbent"]
    assert incumbent is not None
    assert (incumbent["objective"]["value"], incumbent["node"]) == (2.0, "n2")
    figures = [attempt["result"]["objective"]["value"] for attempt in done.attempts]
    assert figures == [1.2, 1.1, 0.9, 2.0]
    assert [done.model.node(name).evidence[0].objective.value for name in ("n1", "n2")] == [1.2, 2.0]
    verdicts = [await done.means.evaluation(attempt["result"]["evaluation"]) for attempt in done.attempts]
    assert [verdict.doubt for verdict in verdicts] == ["", "too fast", "", ""]


async def test_integrity_quarantines_the_node(search: Search) -> None:
    script = {
        "proposals": [{"edits": [intent("Cheat", 0.9), intent("Honest", 0.1)]}, {}],
        "cycles": [[{"status": "integrity", "markers": {"rule": "threads"}}], [1.5]],
    }
    done = await search(script, stagnation=5, max_evaluations=2)
    cheat = done.model.node("n1")
    assert cheat.status == "failed"
    assert cheat.evidence[0].rule == "threads"
    assert done.trace().count("select n2") == 1


async def test_fan_out_of_four_with_no_one_and_all_branches_failing(search: Search) -> None:
    """No fan-out is ever empty: failed drafts, repeats and broken programs pass through like the others."""
    inserts = [intent(name, 0.5) for name in "ABCD"]
    for cycles in (
        [[1.1, 1.2], [1.3, 1.4], [1.5, 1.6], [1.7, 1.8]],
        [[1.1, 1.2], [None, None], [1.5, 1.6], [1.7, 1.8]],
        [[None, None], [None, None], [None, None], [None, None]],
        [["crashed", None], [None, "timeout"], ["build_error", None], [None, "out_of_memory"]],
    ):
        script = {"proposals": [{"edits": inserts}], "cycles": cycles}
        done = await search(script, width=4, samples=2, sample_cap=2)
        paid = sum(sample is not None for cycle in cycles for sample in cycle)
        assert done.ended.status == "finished"
        assert done.ended.state["spend"]["evaluations"] == paid
        assert len(done.attempts) == 8
        assert done.ended.state["stop"] is not None
        assert done.ended.state["stop"]["reason"] == "exhausted"
        assert done.model.counts()["active"] == 0
        passed = [any(isinstance(sample, float) for sample in cycle) for cycle in cycles]
        assert [node.status == "closed" for node in done.model.nodes] == passed


async def test_budget_clips_the_fan_out(search: Search) -> None:
    inserts = [intent(name, 0.5) for name in "ABCD"]
    cycles: list[Any] = [[1.1, 1.2], [1.3, 1.4], [1.5, 1.6], [1.7, 1.8]]
    script = {"proposals": [{"edits": inserts}], "cycles": cycles}
    done = await search(script, width=4, samples=2, max_evaluations=5)
    assert done.ended.state["spend"]["evaluations"] == 5
    # Each cycle gets one before any gets its second.
    assert sorted((a["result"]["cycle"], a["result"]["sample"]) for a in done.attempts) == [
        (1, 1),
        (1, 2),
        (2, 1),
        (3, 1),
        (4, 1),
    ]


async def test_repeats_cost_no_evaluation_and_end_the_cycle(search: Search) -> None:
    script = {
        "proposals": [{"edits": [intent("A", 0.9)]}],
        "cycles": [[1.5, {"repeats": 1}, {"repeats": 1}, {"repeats": 1}]],
    }
    done = await search(script, novelty=True, repeat_cap=3)
    assert done.ended.state["spend"]["evaluations"] == 1
    assert [a["result"]["outcome"] for a in done.attempts] == ["evaluated", "repeated", "repeated", "repeated"]
    assert done.attempts[1]["result"]["message"] == "repeats attempt 1"
    assert done.model.node("n1").status == "closed"


async def test_equal_searches_have_equal_trees(search: Search) -> None:
    """Also with different widths of time: the scripted search depends on seed, replies and measurements alone."""
    options = {"max_evaluations": 30, "width": 3, "samples": 2, "stagnation": 2, "seed": 5}
    first = await search(**options)
    second = await search(**options)
    assert first.ended.state["tree"] == second.ended.state["tree"]
    assert first.ended.state["attempts"] == second.ended.state["attempts"]


async def test_every_reachable_end_has_a_reason(search: Search) -> None:
    nothing = await search({"proposals": [{}], "cycles": []})
    assert nothing.ended.state["stop"] is not None
    assert nothing.ended.state["stop"]["reason"] == "nothing_to_start_from"
    zero = await search({"proposals": [{"edits": [intent("A", 0.9)]}], "cycles": []}, max_evaluations=0)
    assert zero.ended.state["stop"] is not None
    assert zero.ended.state["stop"]["reason"] == "budget"
    target = await search(
        {"proposals": [{"edits": [intent("A", 0.9)]}], "cycles": [[1.2, 2.5, 3.0]]}, target=2.0, stagnation=9
    )
    assert target.ended.state["stop"] is not None
    assert target.ended.state["stop"]["reason"] == "target"
    assert target.ended.state["spend"]["evaluations"] == 2


async def test_a_coder_that_never_writes_a_program_ends_the_search(search: Search) -> None:
    """Unusable replies are no evaluations, and a planner can insert for ever: rounds without one are counted."""
    proposals = [{"edits": [intent("A", 0.9)]}, *[{"edits": [intent(f"B{n}", 0.5)]} for n in range(40)]]
    done = await search({"proposals": proposals, "cycles": [[None]] * 41}, idle_cap=10, stagnation=1)
    assert done.ended.state["stop"] is not None
    assert done.ended.state["stop"]["reason"] == "stalled"
    assert done.ended.state["round"] == 10
