from __future__ import annotations

from hypothesis import Phase, settings

from stores.testing.engine import Conformance

ITEMS = {str(i): i for i in range(8)}


class Slow(Conformance):
    examples_scale = 0.25
    phases = (Phase.generate,)


def test_an_engine_is_asked_the_profiles_examples_scaled_to_its_speed() -> None:
    every = settings().max_examples

    assert Conformance.examples(0.5).max_examples == every // 2
    assert Slow.examples(0.5).max_examples == round(every * 0.125)
    assert Slow.examples(1e-9).max_examples == 1


def test_a_slow_engine_is_asked_evenly_spread_cases() -> None:
    assert Conformance.some(ITEMS) == ITEMS
    assert list(Slow.some(ITEMS).values()) == [0, 4]
