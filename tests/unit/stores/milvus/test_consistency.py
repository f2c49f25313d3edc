from __future__ import annotations

from stores.milvus.consistency import LAG_SECONDS, Consistency


def test_a_read_soon_after_a_write_of_this_process_waits_for_it_and_a_later_one_does_not() -> None:
    now = [100.0]
    consistency = Consistency(replicas=1, clock=lambda: now[0])
    consistency.wrote("mine")

    levels = [consistency.level("mine"), consistency.level("other"), consistency.level(None)]
    now[0] += LAG_SECONDS

    assert levels == ["Session", "Bounded", "Bounded"]
    assert consistency.level("mine") == "Bounded"


def test_several_copies_are_read_at_the_strongest_level() -> None:
    assert Consistency(replicas=2).level("c") == "Strong"


def test_only_writes_of_the_last_seconds_are_remembered() -> None:
    now = [0.0]
    consistency = Consistency(replicas=1, clock=lambda: now[0])

    for number in range(1000):
        now[0] += 1.0
        consistency.wrote(f"collection {number}")

    assert len(consistency) == LAG_SECONDS
    assert consistency.level("collection 999") == "Session"
