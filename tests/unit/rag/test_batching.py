"""The batcher gives every item its own result, interactive work first, within its bounds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.batching import BULK_AFTER, Batcher, BatchLimits, choose_batch, open_batcher, open_lane, open_lazy
from rag.core.errors import CapacityError, OverloadedError
from rag.core.types import Priority

INTERACTIVE, BULK = Priority.INTERACTIVE, Priority.BULK


class Gate:
    """A function over batches that notes them, and waits in its thread while it is shut."""

    def __init__(self, *, shut: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()
        self._open = threading.Event()
        if not shut:
            self._open.set()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        self.threads.add(threading.current_thread().name)
        assert self._open.wait(10)
        if any(item < 0 for item in items):
            raise ArithmeticError("negative")
        return [item * 2 for item in items]

    def open(self) -> None:
        self._open.set()


@asynccontextmanager
async def opened(
    gate: Callable[[Sequence[int]], Sequence[int]], limits: BatchLimits | None = None
) -> AsyncIterator[Batcher[int, int]]:
    async with open_batcher(gate, cost=lambda item: 1 + abs(item), limits=limits or BatchLimits()) as batcher:
        yield batcher


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  the condition is another thread's
            await asyncio.sleep(0.001)


async def occupied(batcher: Batcher[int, int], gate: Gate) -> asyncio.Task[list[int]]:
    """Put one item into the shut gate, so that what follows has to queue."""
    task = asyncio.create_task(batcher.submit([1000], priority=INTERACTIVE))
    await until(lambda: gate.batches)
    return task


async def test_an_idle_model_takes_a_single_item_at_once() -> None:
    gate = Gate()
    async with opened(gate) as batcher:
        results = await batcher.submit([7], priority=INTERACTIVE)

    assert results == [14]
    assert gate.batches == [[7]]


async def test_no_items_give_no_results_without_a_batch() -> None:
    gate = Gate()
    async with opened(gate) as batcher:
        results = await batcher.submit([], priority=BULK)

    assert results == []
    assert gate.batches == []


async def test_items_that_queued_while_the_model_was_busy_share_a_batch() -> None:
    gate = Gate(shut=True)
    async with opened(gate) as batcher:
        first = await occupied(batcher, gate)
        others = [asyncio.create_task(batcher.submit([item], priority=INTERACTIVE)) for item in (1, 2, 3)]
        await until(lambda: batcher.waiting(INTERACTIVE) == 3)
        gate.open()
        results = await asyncio.gather(first, *others)

    assert results == [[2000], [2], [4], [6]]
    assert gate.batches == [[1000], [1, 2, 3]]


async def test_interactive_items_overtake_bulk_items_that_came_before_them() -> None:
    gate = Gate(shut=True)
    async with opened(gate) as batcher:
        first = await occupied(batcher, gate)
        bulk = asyncio.create_task(batcher.submit(list(range(40)), priority=BULK))
        await until(lambda: batcher.waiting(BULK) == 40)
        interactive = asyncio.create_task(batcher.submit([50], priority=INTERACTIVE))
        await until(lambda: batcher.waiting(INTERACTIVE) == 1)
        gate.open()
        await asyncio.gather(first, bulk, interactive)

    assert gate.batches[1] == [50]


async def test_bulk_work_is_not_starved_by_a_stream_of_interactive_work() -> None:
    gate = Gate(shut=True)
    async with opened(gate, BatchLimits(items=1)) as batcher:
        first = await occupied(batcher, gate)
        bulk = asyncio.create_task(batcher.submit([0], priority=BULK))
        stream = asyncio.create_task(batcher.submit(list(range(1, 3 * BULK_AFTER)), priority=INTERACTIVE))
        await until(lambda: batcher.waiting(BULK) and batcher.waiting(INTERACTIVE))
        gate.open()
        await asyncio.gather(first, bulk, stream)

    assert gate.batches.index([0]) == BULK_AFTER + 1


async def test_a_bulk_batch_is_a_quarter_of_an_interactive_one() -> None:
    gate = Gate()
    async with opened(gate, BatchLimits(items=32, tokens=4096)) as batcher:
        await batcher.submit([1] * 64, priority=BULK)
        bulk = [len(batch) for batch in gate.batches]
        gate.batches.clear()
        await batcher.submit([1] * 64, priority=INTERACTIVE)

    assert max(bulk) == 8
    assert [len(batch) for batch in gate.batches] == [32, 32]


async def test_an_item_over_the_token_budget_runs_alone() -> None:
    gate = Gate()
    async with opened(gate, BatchLimits(items=8, tokens=100)) as batcher:
        async with asyncio.timeout(10):
            results = await batcher.submit([500, 1, 2], priority=INTERACTIVE)

    assert results == [1000, 2, 4]
    assert [500] in gate.batches


async def test_a_full_queue_refuses_with_a_time_to_come_back_and_keeps_what_waits() -> None:
    gate = Gate(shut=True)
    async with opened(gate, BatchLimits(queue=2)) as batcher:
        first = await occupied(batcher, gate)
        waiting = asyncio.create_task(batcher.submit([1, 2], priority=INTERACTIVE))
        bulk = asyncio.create_task(batcher.submit([5, 6], priority=BULK))
        await until(lambda: batcher.waiting(INTERACTIVE) == batcher.waiting(BULK) == 2)

        with pytest.raises(OverloadedError) as refused:
            await batcher.submit([3], priority=INTERACTIVE)
        with pytest.raises(CapacityError) as refused_bulk:
            await batcher.submit([3], priority=BULK)
        gate.open()
        results = await asyncio.gather(first, waiting, bulk)

    assert refused.value.retry_after is not None
    assert refused_bulk.value.retry_after is not None
    assert results == [[2000], [2, 4], [10, 12]]


async def test_a_cancelled_call_frees_its_places_and_is_never_computed() -> None:
    gate = Gate(shut=True)
    async with opened(gate) as batcher:
        first = await occupied(batcher, gate)
        unwanted = asyncio.create_task(batcher.submit([1, 2], priority=INTERACTIVE))
        wanted = asyncio.create_task(batcher.submit([3], priority=INTERACTIVE))
        await until(lambda: batcher.waiting(INTERACTIVE) == 3)
        unwanted.cancel()
        await until(lambda: batcher.waiting(INTERACTIVE) == 1)
        gate.open()
        results = await asyncio.gather(first, wanted)

    assert unwanted.cancelled()
    assert results == [[2000], [6]]
    assert gate.batches == [[1000], [3]]


async def test_a_failing_batch_fails_the_calls_in_it_and_no_others() -> None:
    gate = Gate(shut=True)
    async with opened(gate, BatchLimits(items=1)) as batcher:
        first = await occupied(batcher, gate)
        bad = asyncio.create_task(batcher.submit([-1, 5], priority=INTERACTIVE))
        good = asyncio.create_task(batcher.submit([6], priority=INTERACTIVE))
        await until(lambda: batcher.waiting(INTERACTIVE) == 3)
        gate.open()
        results = await asyncio.gather(first, bad, good, return_exceptions=True)

    assert results[0] == [2000]
    assert isinstance(results[1], ArithmeticError)
    assert results[2] == [12]
    assert [5] not in gate.batches


async def test_a_function_that_loses_a_result_fails_the_batch() -> None:
    async with opened(lambda items: list(items)[1:]) as batcher:
        with pytest.raises(RuntimeError, match="2 items gave 1 results"):
            await batcher.submit([1, 2], priority=INTERACTIVE)


async def test_closing_fails_what_waits_and_delivers_what_runs() -> None:
    gate = Gate(shut=True)
    async with opened(gate) as batcher:
        first = await occupied(batcher, gate)
        waiting = asyncio.create_task(batcher.submit([1], priority=BULK))
        await until(lambda: batcher.waiting(BULK))
        asyncio.get_running_loop().call_later(0.01, gate.open)

    results = await asyncio.gather(first, waiting, return_exceptions=True)
    with pytest.raises(CapacityError):
        await batcher.submit([2], priority=INTERACTIVE)

    assert results[0] == [2000]
    assert isinstance(results[1], CapacityError)


async def test_all_batches_of_a_lane_run_in_one_thread_and_never_at_once() -> None:
    running: list[int] = []
    overlaps: list[int] = []
    threads: set[str] = set()

    def function(items: Sequence[int]) -> list[int]:
        running.append(1)
        overlaps.append(len(running))
        threads.add(threading.current_thread().name)
        running.pop()
        return list(items)

    limits = BatchLimits(items=2)
    async with (
        open_lane() as lane,
        open_batcher(function, cost=int, limits=limits, lane=lane) as left,
        open_batcher(function, cost=int, limits=limits, lane=lane) as right,
    ):
        calls = [batcher.submit([1, 2, 3], priority=BULK) for batcher in (left, right) for _ in range(10)]
        results = await asyncio.gather(*calls)

    assert results == [[1, 2, 3]] * 20
    assert set(overlaps) == {1}
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


async def test_interactive_work_of_one_batcher_goes_before_bulk_work_of_another_on_the_lane() -> None:
    gate, order = Gate(shut=True), list[str]()

    def note(items: Sequence[int]) -> list[int]:
        order.append("interactive")
        return list(items)

    def note_bulk(items: Sequence[int]) -> list[int]:
        order.append("bulk")
        return gate(items)

    async with (
        open_lane() as lane,
        open_batcher(note_bulk, cost=int, limits=BatchLimits(), lane=lane) as embedding,
        open_batcher(note, cost=int, limits=BatchLimits(), lane=lane) as rerank,
    ):
        bulk = asyncio.create_task(embedding.submit([1] * 30, priority=BULK))
        await until(lambda: gate.batches)
        interactive = asyncio.create_task(rerank.submit([1], priority=INTERACTIVE))
        await until(lambda: rerank.waiting(INTERACTIVE))
        gate.open()
        await asyncio.gather(bulk, interactive)

    assert order[:3] == ["bulk", "interactive", "bulk"]


@given(
    costs=st.lists(st.integers(1, 600), min_size=1, max_size=80), items=st.integers(1, 32), tokens=st.integers(1, 4096)
)
def test_a_chosen_batch_holds_the_oldest_item_and_stays_within_count_and_budget(
    costs: list[int], items: int, tokens: int
) -> None:
    chosen = choose_batch(costs, items=items, tokens=tokens)

    assert chosen[0] == 0
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= items
    assert len(chosen) == 1 or max(costs[each] for each in chosen) * len(chosen) <= tokens


def test_similar_lengths_are_chosen_before_others() -> None:
    chosen = choose_batch([100, 10, 101, 500, 99], items=3, tokens=4096)

    assert chosen == [0, 2, 4]


calls = st.lists(
    st.tuples(
        st.lists(st.integers(0, 200), max_size=20),
        st.sampled_from(list(Priority)),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(calls=calls, items=st.integers(1, 9), tokens=st.integers(1, 400))
def test_every_call_that_is_not_cancelled_gets_its_own_results_in_order(
    calls: list[tuple[list[int], Priority, bool, int]], items: int, tokens: int
) -> None:
    async def scenario() -> None:
        gate = Gate()
        async with opened(gate, BatchLimits(items=items, tokens=tokens)) as batcher:
            tasks = []
            for wanted, priority, cancel, steps in calls:
                task = asyncio.create_task(batcher.submit(wanted, priority=priority))
                tasks.append(task)
                for _ in range(steps):
                    await asyncio.sleep(0)
                if cancel:
                    task.cancel()
            async with asyncio.timeout(20):
                results = await asyncio.gather(*tasks, return_exceptions=True)
            waiting = [batcher.waiting(priority) for priority in Priority]

        for (wanted, _, cancel, _), result in zip(calls, results, strict=True):
            if cancel and isinstance(result, asyncio.CancelledError):
                continue
            assert result == [item * 2 for item in wanted]
        assert waiting == [0, 0]

    asyncio.run(scenario())


async def test_a_lazy_model_is_opened_before_it_is_loaded() -> None:
    release = threading.Event()

    def load() -> str:
        assert release.wait(10)
        return "model"

    async with open_lazy(load, name="slow") as lazy:
        before = lazy.ready
        release.set()
        value = await lazy.get()

        assert not before
        assert lazy.ready
        assert lazy.error is None
        assert value == lazy.value == "model"


async def test_a_model_that_cannot_be_loaded_says_why_to_every_caller() -> None:
    def load() -> str:
        raise LookupError("no weights")

    async with open_lazy(load, name="missing") as lazy:
        for _ in range(2):
            with pytest.raises(LookupError, match="no weights"):
                await lazy.get()

        assert not lazy.ready
        assert isinstance(lazy.error, LookupError)


async def test_a_caller_that_gives_up_waiting_does_not_stop_the_loading() -> None:
    release = threading.Event()
    async with open_lazy(lambda: release.wait(10), name="slow") as lazy:
        impatient = asyncio.create_task(lazy.get())
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        release.set()

        assert await lazy.get()


async def test_closing_while_loading_tells_the_waiting_callers() -> None:
    release = threading.Event()
    async with open_lazy(lambda: release.wait(10), name="slow") as lazy:
        waiting = asyncio.create_task(lazy.get())
        await asyncio.sleep(0)

    with pytest.raises(CapacityError):
        await waiting
    release.set()
