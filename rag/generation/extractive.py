"""Answers without a model: the sentences of the evidence that say most about the question."""

from __future__ import annotations

from collections.abc import Sequence

from rag.core.answers import Citation
from rag.generation.evidence import Evidence, Passage, cite, read_passages, score_passages
from rag.generation.markers import without_markers

MAX_SENTENCES = 3
MAX_EVIDENCE = 10
_ENOUGH = 0.6
_NOTHING = {
    "zh": "在已收录的文档中没有找到与该问题相关的内容。",
    "en": "Nothing about this question was found in the documents.",
}


def nothing_found(language: str) -> str:
    """The plain sentence that says so, in Chinese for ``zh``, else in English."""
    return _NOTHING.get(language, _NOTHING["en"])


def extract_answer(question: str, evidence: Sequence[Evidence]) -> list[tuple[str, Citation]]:
    """The best one to three sentences, each with its citation; the text of each ends with its marker.

    Joined by spaces they are the answer. Empty only when no evidence holds any text.
    """
    passages = read_passages(evidence[:MAX_EVIDENCE])
    chosen = _choose(passages, score_passages(passages, question))
    return [(f"{_line(passage.text)} [{passage.evidence.marker}]", cite(passage, model=False)) for passage in chosen]


def _choose(passages: Sequence[Passage], scores: Sequence[float]) -> list[Passage]:
    ranked = sorted(range(len(passages)), key=lambda place: (-scores[place], place))
    chosen: list[int] = []
    for place in ranked:
        if chosen and scores[place] < _ENOUGH * scores[chosen[0]]:
            break
        if all(_differs(passages[place], passages[other]) for other in chosen):
            chosen.append(place)
        if len(chosen) == MAX_SENTENCES or not scores[place]:
            break
    return [passages[place] for place in chosen]


def _differs(passage: Passage, other: Passage) -> bool:
    return passage.terms != other.terms and passage.evidence.marker != other.evidence.marker


def _line(text: str) -> str:
    return without_markers(" ".join(text.split()))
