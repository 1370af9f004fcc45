"""What passes beside the calls, and what a window pays for."""

from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.charges import ON_GPU, WindowTimes, charged, excused

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
