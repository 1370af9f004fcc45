"""How cases are timed: no program is given an example twice, and memory limits what is made."""

from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.bench import Effort, Limits
from evaluators.worker.plans import CasePlan, examples_wanted, plan_case, shares, shortened, without_repeats

EFFORT = Effort(5, 8, wanted=0.01, seconds=2.5, windows=6)
NS = st.integers(0, 10**9)
CALLS = st.integers(1, 128)
PLANS = st.builds(CasePlan, st.integers(1, 60), CALLS, st.just(True)) | st.builds(
    CasePlan, st.just(1), CALLS, st.just(False)
)


def limits(*, alike: bool) -> Limits:
    return Limits(8_000_000, 128, 400_000, 0.002, 1 << 30, 1 << 32, least_windows=2 if alike else 1, alike=alike)


@given(st.lists(NS, min_size=1, max_size=4), st.integers(512, 1 << 33), st.integers(1, 40), st.booleans())
def test_a_plan_keeps_within_the_limits(call_ns: list[int], stride: int, cases: int, alike: bool) -> None:
    of = limits(alike=alike)
    plan = plan_case(call_ns, stride, cases, of, EFFORT)
    for place in range(len(call_ns)):
        calls = plan.calls_of(place)
        assert 1 <= calls <= of.most_calls
        assert calls == 1 or calls * stride * len(call_ns) * cases <= of.arena_bytes
    assert plan.windows <= EFFORT.windows
    assert plan.windows >= of.least_windows or not plan.warm
    assert alike == (plan.baseline_calls is None)


def test_a_slow_baseline_is_called_as_often_as_suits_it() -> None:
    assert plan_case([4_000_000, 100_000, 80_000], 512, 1, limits(alike=False), EFFORT).baseline_calls == 2
    plan = plan_case([4_000_000, 100_000, 80_000], 512, 1, limits(alike=False), EFFORT)
    assert (plan.calls_of(0), plan.calls_of(1), plan.calls_of(2)) == (2, 100, 100)
    assert plan_case([4_000_000, 100_000], 512, 1, limits(alike=True), EFFORT).calls_of(0) == 80


def test_a_slow_program_does_not_change_how_its_rival_is_timed() -> None:
    for alike in (True, False):
        alone = plan_case([40_000, 30_000], 512, 1, limits(alike=alike), EFFORT)
        beside = plan_case([40_000, 30_000, 350_000_000], 512, 1, limits(alike=alike), EFFORT)
        for place in (0, 1):
            assert beside.warm_of(place)
            assert (beside.windows_of(place), beside.calls_of(place)) == (alone.windows, alone.calls_of(place))
        assert (beside.warm_of(2), beside.windows_of(2), beside.calls_of(2)) == (False, 1, 1)
    slow_baseline = plan_case([400_000_000, 30_000], 512, 1, limits(alike=False), EFFORT)
    assert (slow_baseline.warm_of(0), slow_baseline.warm_of(1)) == (False, True)
    assert slow_baseline.windows_of(0) == slow_baseline.windows_of(1) == 1


@given(PLANS, st.integers(1, 2000), st.sampled_from([1, 2]))
def test_no_example_is_dealt_twice_where_enough_were_made(plan: CasePlan, made: int, least: int) -> None:
    kept = without_repeats(plan, made, least)
    assert kept.calls <= plan.calls
    if made > least:
        assert examples_wanted(kept) <= made
    if made >= examples_wanted(plan) and plan.windows >= least:
        assert examples_wanted(kept) <= examples_wanted(plan)
        assert kept.calls == plan.calls


def test_where_inputs_are_few_the_baseline_makes_no_more_calls_than_a_program() -> None:
    plan = plan_case([600_000, 640_000], 512, 1, limits(alike=False), EFFORT)
    assert (plan.calls_of(0), plan.calls_of(1)) == (13, 12)
    few = without_repeats(plan, 2, 1)
    assert (few.calls_of(0), few.calls_of(1)) == (1, 1)
    words = "calls a window, few as inputs take long to make or much memory: "
    assert shortened(["a", "b"], [plan, plan], [few, plan]) == [f"{words}a 1 of 12"]
    assert shortened(list("abcde"), [plan] * 5, [few] * 5) == [f"{words}a 1 of 12, b 1 of 12, c 1 of 12 and 2 more"]
    assert shortened(["a"], [plan], [plan]) == []
    slow = plan_case([4_000_000, 100_000], 512, 1, limits(alike=False), EFFORT)
    assert [without_repeats(slow, made, 1).calls_of(0) for made in (60, 1000)] == [2, 2]


@given(
    st.lists(
        st.tuples(
            st.builds(CasePlan, st.integers(1, 6), st.integers(1, 128), st.booleans()), st.integers(512, 1 << 30)
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 1 << 36),
)
def test_memory_is_shared_by_need(cases: list[tuple[CasePlan, int]], pool_bytes: int) -> None:
    plans, strides = [plan for plan, _ in cases], [stride for _, stride in cases]
    counts = shares(plans, strides, pool_bytes, 1)
    wanted = [examples_wanted(plan) for plan in plans]
    assert all(min(most, 2) <= count <= most for count, most in zip(counts, wanted, strict=True))
    least = sum(min(most, 2) * stride for most, stride in zip(wanted, strides, strict=True))
    assert sum(count * stride for count, stride in zip(counts, strides, strict=True)) <= pool_bytes + least
    if sum(count * stride for count, stride in zip(wanted, strides, strict=True)) <= pool_bytes:
        assert counts == wanted
