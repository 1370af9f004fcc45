"""What passes beside the calls, and what a window pays for."""

from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.charges import ON_GPU, Least, WindowTimes, charged, excused, left_excess, wake_excess

TIMES = st.integers(0, 10**9)


def test_what_a_program_does_around_and_beside_its_calls_is_paid_for() -> None:
    honest, cheat = WindowTimes(1000, 0, (90, 0)), WindowTimes(10, 800, (90, 0))
    assert charged([honest, cheat, honest], 5, [90, 5]) == [1000 + 800, 10 + 800, 1000 + 5]
    assert charged([WindowTimes(10, 0, (900, 0)), honest], 0, [100, 500]) == [10 + 800, 1000]


@given(TIMES, TIMES)
def test_on_a_gpu_half_more_and_80_us_pass_and_beyond_that_nothing(took: int, free: int) -> None:
    (paid,) = charged([WindowTimes(1000, 0, (took,))], 0, [free], ON_GPU)
    assert paid == 1000 + (took - free if took > 1.5 * free + 80_000 else 0)


@given(st.lists(TIMES, min_size=1, max_size=9), TIMES, st.floats(0, 128))
def test_what_is_done_once_does_not_grow_with_the_calls(times: list[int], bare: int, more: float) -> None:
    windows = [WindowTimes(1, 0, (took,)) for took in times]
    (alike,), (free,) = excused(windows, 0, ()), excused(windows, bare, (more,))
    assert alike == sorted(times)[len(times) // 2] or len(times) % 2 == 0
    assert bare <= free <= bare + alike * more + 1e-6 * alike * more
    assert excused(windows, bare, (0.0,)) == [bare]


@given(st.lists(TIMES, min_size=1, max_size=9), st.sampled_from([0.0, 0.25]))
def test_what_goes_beyond_the_least_ever_is_excess_until_that_is_forgotten(times: list[int], uneven: float) -> None:
    least = Least[str](uneven)
    found = [least.excess("fill", took) for took in times]
    assert found == [max(0, t - int((1 + uneven) * min(times[: n + 1]))) for n, t in enumerate(times)]
    assert least.excess("another", 10**9) == 0
    least.forget("fill")
    assert least.excess("fill", 10**9) == 0
    assert least.excess("another", 2 * 10**9) == int(2 * 10**9 - (1 + uneven) * 10**9)


def test_a_program_may_take_a_quarter_longer_to_be_woken_than_the_baseline_usually_does() -> None:
    assert wake_excess(500_000, [400_000, 390_000, 9_000_000]) == 0
    assert wake_excess(501_000, [400_000, 390_000, 9_000_000]) == 1_000
    assert wake_excess(700_000, []) == 0


def test_what_a_stopped_program_has_left_counts_beyond_the_least_that_the_baseline_took() -> None:
    assert left_excess(150_000, [120_000, 100_000, 400_000]) == 50_000
    assert left_excess(90_000, [120_000, 100_000]) == 0
    assert left_excess(90_000, []) == 0
