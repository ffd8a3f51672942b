"""What a log has from a time on, against a plain list; and that it is not walked over for that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.core.streams import logged_batches
from node.core.streams.log_extent import LoggedBatch
from node.core.streams.logged_batches import LoggedBatches
from node.core.streams.ticks import TICK_END, TICK_MIN, tick_start
from tests.examples import examples

TAU = 10
#: The ticks, rows and bytes of the next batch; or that the oldest goes.
STEPS = st.lists(st.one_of(st.tuples(st.integers(1, 3), st.integers(0, 5), st.integers(0, 99)), st.none()), max_size=40)


@given(STEPS, st.booleans())
@examples()
def test_it_is_a_list_with_sums(steps: list[tuple[int, int, int] | None], ends: bool) -> None:
    log, plain = LoggedBatches(TAU), list[LoggedBatch]()
    tick = TICK_MIN
    for place, step in enumerate(steps):
        if step is None:
            if plain:
                assert log.popleft() == plain.pop(0)
        elif tick < TICK_END:
            ticks, rows, nbytes = step
            end = TICK_END if ends and place > 30 else max(tick, 0) + ticks
            plain.append(LoggedBatch(tick, end, rows, nbytes))
            log.append(plain[-1])
            tick = end
        assert (list(log), len(log), bool(log)) == (plain, len(plain), bool(plain))
        assert plain[:1] == ([log[0]] if log else [])
        assert (log.rows, log.nbytes) == (sum(one.rows for one in plain), sum(one.nbytes for one in plain))
        for ts in (TICK_MIN, -1, 0, 9, 10, 11, TAU * place, TICK_END - 1, TICK_END):
            after = [one for one in plain if tick_start(one.end, TAU) > ts]
            assert log.bytes_after(ts) == sum(one.nbytes for one in after)
            assert log.first_after(ts) == next(iter(after), None)
        for before in (TICK_MIN, 0, 1, place, tick, TICK_END):
            numbers = [one.first for one in plain if one.end <= before for _ in range(one.rows)]
            for count in (1, 2, 7, len(numbers), len(numbers) + 1):
                wanted = numbers[-count] if 0 < count <= len(numbers) else None
                assert count == 0 or log.first_of_last(count, before) == wanted


def test_what_is_from_a_time_on_is_found_without_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report asks for each pin of each query, on the thread that answers links."""
    log, looks = LoggedBatches(TAU), list[int]()
    log.extend(LoggedBatch(tick, tick + 1, 1, 3) for tick in range(100_000))

    def looked(tick: int, tau: int) -> int:
        looks.append(tick)
        return tick_start(tick, tau)

    monkeypatch.setattr(logged_batches, "tick_start", looked)
    assert log.bytes_after(TAU * 60_000) == 3 * 40_000
    assert len(looks) < 40
    assert log.nbytes == 300_000
    assert len(looks) < 40
