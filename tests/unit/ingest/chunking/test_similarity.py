"""Cuts cost what the units on their sides are alike, whatever the batches in which they came."""

from __future__ import annotations

import numpy as np
import pytest

from ingest.chunking.segments import Segment
from ingest.chunking.sentences import Break
from ingest.chunking.similarity import Likeness, cut_costs
from rag.core.types import Block

BLOCK = Block(start=0, end=100)


def units(count: int, *, before: Break = Break.SENTENCE) -> list[Segment]:
    return [Segment(place, place + 1, 1, before, BLOCK) for place in range(count)]


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 12])
def test_similarities_do_not_depend_on_the_batches(batch: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(12, 4)).astype(np.float32)
    likeness = Likeness()

    for first in range(0, len(vectors), batch):
        likeness.add(vectors[first : first + batch])

    for distance in (1, 2, 3):
        expected = (vectors[:-distance] * vectors[distance:]).sum(axis=1)
        assert likeness.at(distance) == pytest.approx(expected, abs=1e-5)


def test_the_cheapest_cut_is_where_the_subject_changes() -> None:
    likeness = Likeness()
    likeness.add(np.array([[1, 0]] * 4 + [[0, 1]] * 4, dtype=np.float32))

    [costs] = cut_costs([units(8)], likeness)

    assert int(np.argmin(costs)) == 4


def test_a_cut_looks_at_its_own_section_only() -> None:
    likeness = Likeness()
    likeness.add(np.array([[1, 0]] * 3 + [[0, 1]] * 3, dtype=np.float32))

    costs = cut_costs([units(3), units(3)], likeness)

    assert [len(each) for each in costs] == [3, 3]
    assert not any(map(any, costs))


def test_a_cut_before_a_paragraph_is_cheaper() -> None:
    likeness = Likeness()
    likeness.add(np.ones((2, 1), dtype=np.float32))

    [[_, sentence]], [[_, paragraph]] = (
        cut_costs([units(2, before=each)], likeness) for each in (Break.SENTENCE, Break.PARAGRAPH)
    )

    assert paragraph < sentence
