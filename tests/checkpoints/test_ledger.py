"""The ledger: nothing recorded is repeated or lost, at most the call in flight at a kill is."""

import asyncio
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints.blobs import BlobFolder
from checkpoints.home import Home, open_home
from checkpoints.ledger import EvaluationKey, LedgerKey, once
from evaluators.digest import digest_json
from evaluators.errors import StoreError

Child = Callable[..., subprocess.Popen[str]]


def key(**changes: Any) -> LedgerKey:
    defaults = {"thread": "t", "round": 1, "cycle": 2, "sample": 0, "role": "coder", "turn": 0, "request": "r"}
    return LedgerKey(**{**defaults, **changes})


class Paid:
    """A call that counts how often it was paid for."""

    def __init__(self, result: Any = "reply", spend: dict[str, Any] | None = None) -> None:
        self.count = 0
        self.returned = False
        self.result = result
        self.spend = spend or {"output_tokens": 7}

    async def __call__(self) -> tuple[Any, dict[str, Any]]:
        self.count += 1
        await asyncio.sleep(0)
        self.returned = True
        return self.result, self.spend


async def test_an_entry_begins_and_finishes(home: Home) -> None:
    assert await home.ledger.find(key()) is None
    await home.ledger.begin(key())
    begun = await home.ledger.find(key())
    assert begun is not None
    assert (begun.calls, begun.unknown, begun.result, begun.spend) == (1, 1, None, None)
    assert await home.ledger.unfinished("t") == [begun]
    await home.ledger.finish(key(), "digest", {"tokens": 3})
    finished = await home.ledger.find(key())
    assert finished is not None
    assert (finished.calls, finished.unknown, finished.result, finished.spend) == (1, 0, "digest", {"tokens": 3})
    assert finished.finished_at is not None
    assert finished.finished_at >= finished.started_at
    assert await home.ledger.unfinished("t") == []


async def test_a_recorded_result_cannot_be_replaced(home: Home) -> None:
    with pytest.raises(StoreError, match="was not begun"):
        await home.ledger.finish(key(), "digest", {})
    await home.ledger.begin(key())
    await home.ledger.finish(key(), "digest", {})
    with pytest.raises(StoreError, match="coder call of round 1, cycle 2, sample 0, turn 0 has a result already"):
        await home.ledger.begin(key())
    with pytest.raises(StoreError, match="has a result already"):
        await home.ledger.finish(key(), "other", {})
    entry = await home.ledger.find(key())
    assert entry is not None
    assert entry.result == "digest"


@pytest.mark.parametrize(
    "change",
    [{"thread": "u"}, {"round": 9}, {"cycle": 9}, {"sample": 9}, {"role": "planner"}, {"turn": 9}, {"request": "q"}],
)
async def test_every_part_of_the_key_tells_calls_apart(home: Home, change: dict[str, Any]) -> None:
    one, other = Paid("one"), Paid("other")
    await once(home.ledger, home.blobs, key(), one)
    assert (await once(home.ledger, home.blobs, key(**change), other))[0] == "other"
    assert (one.count, other.count) == (1, 1)


@pytest.mark.parametrize("result", [{"text": ("a", "b"), "n": 1.5}, [], "half a pair \ud83d", None])
async def test_a_recorded_call_is_not_paid_again_and_reads_as_it_did_fresh(home: Home, result: Any) -> None:
    paid = Paid(result, {"output_tokens": 5, "model": "m"})
    fresh = await once(home.ledger, home.blobs, key(), paid)
    recorded = await once(home.ledger, home.blobs, key(), paid)
    assert paid.count == 1
    assert fresh[2] is True
    assert recorded[2] is False
    assert recorded[:2] == fresh[:2]
    assert repr(recorded[0]) == repr(fresh[0])


async def test_a_failed_call_stays_visible_as_unknown_spend(home: Home) -> None:
    async def fails() -> tuple[Any, dict[str, Any]]:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        await once(home.ledger, home.blobs, key(), fails)
    await once(home.ledger, home.blobs, key(), Paid())
    (entry,) = await home.ledger.unfinished("t")
    assert (entry.calls, entry.unknown) == (2, 1)
    assert entry.result is not None


@pytest.mark.folder_only
async def test_a_missing_result_is_told_not_paid_for_again(home: Home) -> None:
    paid = Paid("precious")
    await once(home.ledger, home.blobs, key(), paid)
    digest = digest_json("precious")
    (home.folder / "blobs" / digest[:2] / digest[2:]).unlink()
    with pytest.raises(StoreError, match=f"{digest} is missing"):
        await once(home.ledger, home.blobs, key(), paid)
    assert paid.count == 1


async def test_a_result_that_arrives_is_recorded_even_when_the_node_is_cancelled(home: Home) -> None:
    returned = 0
    for steps in range(12):
        paid = Paid()
        task = asyncio.create_task(once(home.ledger, home.blobs, key(round=steps), paid))
        while not paid.count:
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        returned += paid.returned
        await asyncio.wait([task])
        entry = await home.ledger.find(key(round=steps))
        assert entry is not None
        assert (entry.result is not None) == paid.returned
    assert 0 < returned < 12


async def test_siblings_are_recorded_side_by_side(home: Home) -> None:
    paid = [Paid(index) for index in range(16)]
    results = await asyncio.gather(
        *(once(home.ledger, home.blobs, key(sample=index), call) for index, call in enumerate(paid))
    )
    assert [result for result, _, _ in results] == list(range(16))
    assert [entry.key.sample for entry in await home.ledger.entries("t")] == list(range(16))


async def test_totals_by_role_and_model(home: Home) -> None:
    await once(home.ledger, home.blobs, key(sample=0), Paid("a", {"tokens": 1, "money": 0.5, "model": "m"}))
    await once(home.ledger, home.blobs, key(sample=1), Paid("b", {"tokens": 2, "cached": True, "model": "m"}))
    await once(home.ledger, home.blobs, key(sample=2), Paid("c", {"tokens": 4, "model": "n"}))
    await once(home.ledger, home.blobs, key(role="evaluator"), Paid("d", {"device_s": 1.5}))
    await once(home.ledger, home.blobs, key(thread="other"), Paid("e", {"tokens": 100}))
    await home.ledger.begin(key(role="evaluator", sample=1))
    found = [
        (total.role, total.model, total.calls, total.unknown, total.spend) for total in await home.ledger.totals("t")
    ]
    assert found == [
        ("coder", "m", 2, 0, {"tokens": 3, "money": 0.5}),
        ("coder", "n", 1, 0, {"tokens": 4}),
        ("evaluator", "", 1, 1, {"device_s": 1.5}),
    ]


@pytest.mark.folder_only
async def test_evaluations_hold_in_other_threads_when_all_that_matters_agrees(home: Home) -> None:
    known = EvaluationKey(task="t", solution="s", protocol="p", effort="search", fingerprint="f")
    assert await home.ledger.find_evaluation(known) is None
    await home.ledger.record_evaluation(known, "digest", "thread-1")
    await home.ledger.record_evaluation(known, "later", "thread-2")
    found = await home.ledger.find_evaluation(known)
    assert found is not None
    assert (found.result, found.thread) == ("digest", "thread-1")
    for field in EvaluationKey.model_fields:
        assert await home.ledger.find_evaluation(known.model_copy(update={field: "other"})) is None


SEARCH = """
import asyncio, os, signal, sys
from pathlib import Path
from checkpoints.blobs import BlobFolder
from checkpoints.home import open_home
from checkpoints.ledger import LedgerKey, once

home_folder, paid_file, dies, rounds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class DyingBlobs(BlobFolder):
    def put(self, data):
        digest = super().put(data)
        die()
        return digest

async def main():
    async with open_home(home_folder) as home:
        for round_ in range(rounds):
            async def call():
                with paid_file.open("a") as file:
                    file.write(f"{round_}\\n")
                if dies == "in the call":
                    die()
                await asyncio.sleep(0.001)
                return f"reply {round_}", {"tokens": 1}
            key = LedgerKey(thread="t", round=round_, cycle=0, sample=0, role="coder", turn=0, request="r")
            blobs = DyingBlobs(home.folder / "blobs") if dies == "after the blob" else home.blobs
            result, spend, fresh = await once(home.ledger, blobs, key, call)
            assert (result, spend) == (f"reply {round_}", {"tokens": 1})
            if dies == "after the row" and fresh:
                die()
            print(round_, fresh, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("dies", "paid", "unknown"),
    [("in the call", 2, 1), ("after the blob", 2, 1), ("after the row", 1, 0)],
)
async def test_a_kill_repeats_at_most_the_call_in_flight(
    tmp_path: Path, child: Child, dies: str, paid: int, unknown: int
) -> None:
    arguments = (tmp_path / "home", tmp_path / "paid")
    first = child(SEARCH, *arguments, dies, 1)
    assert first.wait(200) == -signal.SIGKILL
    async with open_home(tmp_path / "home") as home:
        assert [entry.unknown for entry in await home.ledger.entries("t")] == [unknown]
        has_blob = list((home.folder / "blobs").glob("??/*")) != []
    assert has_blob == (dies != "in the call")
    second = child(SEARCH, *arguments, "never", 1)
    assert second.wait(200) == 0
    assert len((tmp_path / "paid").read_text().split()) == paid
    async with open_home(tmp_path / "home") as home:
        (entry,) = await home.ledger.entries("t")
        assert (entry.calls, entry.unknown) == (paid, unknown)
        assert entry.result is not None
        assert home.blobs.get_json(entry.result) == "reply 0"


async def test_kills_at_any_moment_repeat_at_most_one_call_each(tmp_path: Path, child: Child) -> None:
    kills = 4
    for count in range(1, kills + 1):
        process = child(SEARCH, tmp_path / "home", tmp_path / "paid", "never", 1000)
        assert process.stdout is not None
        while int(process.stdout.readline().split()[0]) < 15 * count:
            pass
        process.kill()
        process.wait()
    last = child(SEARCH, tmp_path / "home", tmp_path / "paid", "never", 80)
    out, error = last.communicate(timeout=200)
    assert last.returncode == 0, error
    assert len(out.splitlines()) == 80
    paid = (tmp_path / "paid").read_text().split()
    assert len(paid) - len(set(paid)) <= kills
    async with open_home(tmp_path / "home") as home:
        entries = await home.ledger.entries("t")
        assert all(entry.result is not None for entry in entries if entry.key.round < 80)
        # A kill between the intent and the call leaves an intent for a call that was never made.
        assert len(paid) <= sum(entry.calls for entry in entries) <= len(paid) + kills
        assert all(
            isinstance(BlobFolder(tmp_path / "home/blobs").get_json(entry.result), str)
            for entry in entries
            if entry.result
        )


async def test_two_processes_write_one_file(tmp_path: Path, child: Child) -> None:
    code = SEARCH.replace('thread="t"', "thread=str(os.getpid())")
    processes = [child(code, tmp_path / "home", tmp_path / f"paid{index}", "never", 150) for index in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    async with open_home(tmp_path / "home") as home:
        for process in processes:
            entries = await home.ledger.entries(str(process.pid))
            assert [entry.key.round for entry in entries] == list(range(150))
            assert not await home.ledger.unfinished(str(process.pid))
