"""How well a sentence of the evidence supports a text: shared terms, rare ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p

from rag.core.answers import Citation, DocumentLabel
from rag.core.records import Hit
from rag.generation.sentences import split_sentences
from rag.lexical import count_terms

_INCOMPLETE = 0.6
_SIZE = 0.2
_RANK = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A hit as the prompt numbers it: ``[marker]``, 1-based."""

    marker: int
    hit: Hit
    label: DocumentLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One sentence of the evidence; ``start``/``end`` are offsets into the hit's text."""

    evidence: Evidence
    start: int
    end: int
    terms: frozenset[int]
    complete: bool

    @property
    def text(self) -> str:
        """The sentence as it stands in the document."""
        return self.evidence.hit.text[self.start : self.end]


def read_passages(evidence: Sequence[Evidence]) -> list[Passage]:
    """Every sentence of the evidence, in its order."""
    return [
        Passage(
            evidence=each,
            start=sentence.start,
            end=sentence.end,
            terms=frozenset(count_terms(each.hit.text[sentence.start : sentence.end]).counts),
            complete=sentence.complete,
        )
        for each in evidence
        for sentence in split_sentences(each.hit.text)
    ]


def score_passages(passages: Sequence[Passage], target: str) -> list[float]:
    """Support of ``target`` by each passage; 0 where they share no term.

    The weight of the shared terms, less for a passage that says much else, so that a long table does not
    win by its length; broken sentences and later evidence count a little less.
    """
    wanted = count_terms(target).counts.keys()
    holding = Counter(term for passage in passages for term in passage.terms)
    weights = {term: log1p((len(passages) - n + 0.5) / (n + 0.5)) for term, n in holding.items()}
    sizes = [sum(weights[term] for term in passage.terms) for passage in passages]
    mean = sum(sizes) / len(sizes) if sizes else 0.0
    return [
        _score(passage, sum(weights[term] for term in passage.terms & wanted), size / mean if mean else 1.0)
        for passage, size in zip(passages, sizes, strict=True)
    ]


def _score(passage: Passage, shared: float, relative_size: float) -> float:
    share = shared / (1 - _SIZE + _SIZE * relative_size)
    return share * (1.0 if passage.complete else _INCOMPLETE) / (1.0 + _RANK * (passage.evidence.marker - 1))


def best_passage(passages: Sequence[Passage], *targets: str) -> Passage | None:
    """The passage that supports the first target which any passage supports, else none."""
    for target in targets:
        scores = score_passages(passages, target)
        if scores and max(scores) > 0:
            return passages[scores.index(max(scores))]
    return None


def supporting_passage(passages: Sequence[Passage], *, question: str, answer: str) -> Passage | None:
    """The passage that fits question and answer best, each counting the same however long it is."""
    totals = [0.0] * len(passages)
    for target in (question, answer):
        scores = score_passages(passages, target)
        best = max(scores, default=0.0)
        if best > 0:
            totals = [total + score / best for total, score in zip(totals, scores, strict=True)]
    return passages[totals.index(max(totals))] if any(totals) else None


def key_passages(passages: Sequence[Passage], question: str, *, chunks: int = 3, sentences: int = 2) -> list[Passage]:
    """Of each of the best ``chunks``, the ``sentences`` that say most about the question, in their order."""
    places: dict[int, list[tuple[float, int]]] = {}
    for place, score in enumerate(score_passages(passages, question)):
        places.setdefault(passages[place].evidence.marker, []).append((-score, place))
    kept = [place for each in list(places.values())[:chunks] for _, place in sorted(each)[:sentences]]
    return [passages[place] for place in sorted(kept)]


def cite(passage: Passage, *, model: bool) -> Citation:
    """The citation that quotes ``passage``; ``model``: its marker was the model's own."""
    hit, label = passage.evidence.hit, passage.evidence.label
    return Citation(
        marker=passage.evidence.marker,
        document=hit.document,
        source=label.source,
        title=label.title,
        page=hit.page,
        start=hit.start + passage.start,
        end=hit.start + passage.end,
        quote=passage.text,
        quality=hit.quality,
        origin="model" if model else "matched",
    )
