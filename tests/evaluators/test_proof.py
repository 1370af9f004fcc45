"""What a program used outside of its windows: that others use a GPU for a while is forgiven, work is not."""

from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.proof import outside_ns
from evaluators.worker.session import Window

MS = 1_000_000


def windows(*outside: int) -> list[Window]:
    return [Window(8 * MS, 8 * MS, idle, 0, None, None) for idle in outside]


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 80_000)), min_size=1, max_size=20))
def test_delays_of_half_of_the_windows_are_forgiven_on_a_gpu(pairs: list[tuple[int, int]]) -> None:
    assert outside_ns(windows(*[one for pair in pairs for one in pair]), on_gpu=True) == 0


@given(st.integers(0, 10**12))
def test_one_window_tells_nothing_on_a_gpu(delay: int) -> None:
    assert outside_ns(windows(delay), on_gpu=True) == 0


@given(st.integers(2, 40), st.integers(2 * MS, 100 * MS))
def test_work_beside_every_window_is_seen(count: int, each: int) -> None:
    assert outside_ns(windows(*[each] * count), on_gpu=True) == count * each
    assert outside_ns(windows(*[each] * count), on_gpu=False) == count * each


def test_a_processor_is_forgiven_nothing() -> None:
    assert outside_ns(windows(MS, 0), on_gpu=False) == MS
