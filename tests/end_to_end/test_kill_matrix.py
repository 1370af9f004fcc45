"""Ways to stop a search, in each node, on each kind of home, narrow and wide: it ends as if nothing had happened."""

import signal
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from typing import Any

import pytest

from tests.end_to_end.killing import DONE, NODES, SCRIPTED, Case, Searches, go_on
from tests.postgres_server import PostgresServer

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CELLS = [(kind, width) for kind in ("folder", "server") for width in (1, 4)]
SHORT, OF_EACH = 20, 3
"""Kills in the short variant; of each signal in each node of each cell in the long one: 216, and 24 between nodes."""

Make = Callable[[str, int], Case]


@pytest.fixture(scope="module")
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Make a case with a home of its own."""

    def case(kind: str, width: int) -> Case:
        folder = tmp_path_factory.mktemp("case")
        home = str(folder / "home")
        if kind == "server":
            server: PostgresServer = request.getfixturevalue("postgres")
            home = server.home()
        return Case(folder, home, {**SCRIPTED, "max_evaluations": 12, "width": width, "samples": 1})

    return case


@pytest.fixture(scope="module")
def undisturbed(searches: Searches, make: Make) -> Callable[[str, int], Case]:
    known: dict[tuple[str, int], Case] = {}

    def case(kind: str, width: int) -> Case:
        if (kind, width) not in known:
            known[kind, width] = make(kind, width)
            assert searches.run(known[kind, width]) == DONE
            assert known[kind, width].outcome()["status"] == "finished"
        return known[kind, width]

    return case


def kills(case: Case, node: str) -> Iterator[dict[str, Any]]:
    """Places in a node, other ones first, over and over."""
    return cycle([point for point in case.points() if point["node"] == node])


def stop(searches: Searches, case: Case, undisturbed: Case, kill: dict[str, Any]) -> None:
    """Stop a search, go on with it, and check it. A signal given twice ends it at once, given once it ends in order."""
    ended = searches.run(case, kill)
    if kill["signal"] == signal.SIGKILL:
        assert ended["signal"] == signal.SIGKILL, kill
    else:
        assert ended["signal"] in (0, kill["signal"]), kill
        assert [entry for entry in case.journal() if entry.get("fell") == kill["signal"]], (kill, "never reached")
    in_order = ended == DONE
    if in_order and case.ended()["status"] == "finished":
        assert case.outcome() == undisturbed.outcome(), kill
        return
    go_on(searches, case, undisturbed, kill, 0 if in_order else case.in_flight)


def test_signals_across_the_matrix(searches: Searches, make: Make, undisturbed: Callable[[str, int], Case]) -> None:
    cells, number = cycle(CELLS), count()
    plan = [(number_, node) for node in NODES for number_ in SIGNALS]
    for signal_, node in islice(cycle(plan), SHORT):
        kind, width = next(cells)
        reference = undisturbed(kind, width)
        turn = next(number)
        place = next(islice(kills(reference, node), turn, None))
        stop(searches, make(kind, width), reference, {**place, "signal": int(signal_), "times": 1 + turn % 2})


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(("kind", "width"), CELLS)
def test_the_whole_matrix(
    searches: Searches, make: Make, undisturbed: Callable[[str, int], Case], kind: str, width: int
) -> None:
    reference = undisturbed(kind, width)
    for node in (*NODES, "between"):
        places = kills(reference, node)
        for signal_ in SIGNALS:
            for turn in range(2 if node == "between" else OF_EACH):
                kill = {**next(places), "signal": int(signal_), "times": 1 + turn % 2}
                stop(searches, make(kind, width), reference, kill)
