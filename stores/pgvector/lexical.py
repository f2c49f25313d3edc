"""Term weights as PostgreSQL keeps them, and the choice of terms that a lexical search reads first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pgvector import SparseVector

from rag.core.errors import InvalidRequestError
from rag.core.types import Terms
from stores.pgvector.tables import PART_SIZE, PARTS

MAX_TERMS = 16_000
"""Entries of one ``sparsevec``."""
_SIGN = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalQuery:
    """A query's terms, split so that most searches read the postings of ``first`` alone.

    A record without any of ``first`` scores at most ``rest_weight`` times the collection's greatest weight; only
    where that could still enter the best are the postings of ``rest`` read.
    """

    first: list[int]
    rest: list[int]
    rest_weight: float
    weights: dict[str, SparseVector]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the statement."""
        split = {"first": self.first, "rest": self.rest, "rest_weight": self.rest_weight}
        return split | self.weights


def lexical_query(terms: Terms) -> LexicalQuery:
    """Split the terms by weight, heaviest first, until what is left weighs no more than the heaviest.

    Weights fall with frequency, so the rest are the terms that most records hold.
    """
    heaviest_first = sorted(terms, key=lambda term: (-abs(terms[term]), term))
    total = sum(abs(weight) for weight in terms.values())
    left, cut = total, 0
    while cut < len(heaviest_first) and (cut == 0 or left * _TYPICAL_GREATEST > abs(terms[heaviest_first[0]])):
        left -= abs(terms[heaviest_first[cut]])
        cut += 1
    first, rest = heaviest_first[:cut], heaviest_first[cut:]
    return LexicalQuery(
        first=signed(first),
        rest=signed(rest),
        rest_weight=sum(abs(terms[term]) for term in rest),
        weights={name: part for name, part in zip(PARTS, pack_terms(terms), strict=True) if part.indices()},
    )


_TYPICAL_GREATEST = 2.2
"""BM25's term-frequency part with k1 = 1.2 stays below it; the exact bound is the collection's own."""


def signed(terms: Iterable[int]) -> list[int]:
    """Unsigned 32-bit ids as ``int4`` holds them."""
    return [term - _SIGN for term in terms]


def pack_terms(terms: Terms) -> list[SparseVector]:
    """A sparse vector a part of the range of ids; raises ``InvalidRequestError`` for more terms than one holds."""
    parts: list[dict[int, float]] = [{} for _ in PARTS]
    for term, weight in terms.items():
        parts[term // PART_SIZE][term % PART_SIZE] = weight
    if any(len(part) > MAX_TERMS for part in parts):
        raise InvalidRequestError(f"a record has at most {MAX_TERMS} terms")
    return [SparseVector(part, PART_SIZE) for part in parts]


def unpack_terms(ids: Sequence[int], parts: Sequence[SparseVector]) -> dict[int, float]:
    """The inverse of :func:`signed` and :func:`pack_terms`; a term of weight zero is in ``ids`` only."""
    terms = {id + _SIGN: 0.0 for id in ids}
    for number, part in enumerate(parts):
        base = number * PART_SIZE
        terms.update(zip((base + index for index in part.indices()), part.values(), strict=True))
    return terms
