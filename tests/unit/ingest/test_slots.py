"""Slots go to tenants in turn, bytes to who came first; what is cancelled holds nothing."""

from __future__ import annotations

import asyncio

from ingest.slots import ByteBudget, FairSlots


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_waiting_tenants_are_served_in_turn_and_each_in_its_order() -> None:
    slots, order = FairSlots(1), list[str]()

    async def work(name: str) -> None:
        async with slots.hold(name[0]):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks, slots.hold("other"):
        for name in ("a0", "a1", "a2", "a3", "b0", "c0", "b1"):
            tasks.create_task(work(name))
        await settle()

    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


async def test_a_cancelled_wait_passes_its_slot_on() -> None:
    slots, entered = FairSlots(1), list[str]()

    async def work(name: str) -> None:
        async with slots.hold(name):
            entered.append(name)

    async with slots.hold("first"):
        gone, next_one = asyncio.create_task(work("gone")), asyncio.create_task(work("next"))
        await settle()
        gone.cancel()
    gone.cancel()
    await asyncio.wait({gone, next_one}, timeout=10)

    assert entered == ["next"]
    async with asyncio.timeout(10), slots.hold("later"):
        pass


async def test_no_more_bytes_are_held_than_there_are() -> None:
    budget, held, most = ByteBudget(10), 0, 0

    async def work(size: int) -> None:
        nonlocal held, most
        async with budget.hold(size):
            held += size
            most = max(most, held)
            await asyncio.sleep(0)
            held -= size

    async with asyncio.TaskGroup() as tasks:
        for size in (4, 5, 6, 1, 9, 3, 3, 3, 3):
            tasks.create_task(work(size))

    assert 0 < most <= 10


async def test_what_is_larger_than_the_budget_is_held_alone() -> None:
    budget, entered = ByteBudget(10), list[int]()

    async def work(size: int) -> None:
        async with budget.hold(size):
            entered.append(size)

    async with budget.hold(1):
        large = asyncio.create_task(work(1000))
        await settle()
        while_held = list(entered)
    await asyncio.wait_for(large, 10)

    assert (while_held, entered) == ([], [1000])


async def test_a_cancelled_wait_for_bytes_lets_the_next_one_in() -> None:
    budget, entered = ByteBudget(10), list[int]()

    async def work(size: int) -> None:
        async with budget.hold(size):
            entered.append(size)

    async with budget.hold(5):
        large, small = asyncio.create_task(work(9)), asyncio.create_task(work(2))
        await settle()
        large.cancel()
        await asyncio.wait_for(small, 10)

    assert entered == [2]
    async with asyncio.timeout(10), budget.hold(10):
        pass
