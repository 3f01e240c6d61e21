import random
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.storage.ids import UlidSource, seconds_of


@given(st.lists(st.floats(0, 2**40), min_size=1, max_size=50))
def test_ids_rise_whatever_the_clock_does(times):
    clock = iter(times)
    make = UlidSource(clock=lambda: next(clock))
    ids = [make() for _ in times]
    assert ids == sorted(set(ids))
    assert all(len(id) == 26 for id in ids)


def test_an_id_tells_when_it_was_made():
    make = UlidSource(clock=lambda: 1_700_000_000.123)
    assert seconds_of(make()) == 1_700_000_000.123


def test_ids_count_up_even_when_the_random_part_is_all_ones():
    make = UlidSource(clock=lambda: 1.0, random=lambda n: b"\xff" * n)
    first, second = make(), make()
    assert first < second


def test_a_seeded_source_repeats_its_ids():
    def ids() -> list[str]:
        make = UlidSource(clock=lambda: 5.0, random=random.Random(3).randbytes)
        return [make() for _ in range(4)]

    assert ids() == ids()


def test_threads_never_get_the_same_id():
    make = UlidSource()
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda _: make(), range(2000)))
    assert len(set(ids)) == 2000
