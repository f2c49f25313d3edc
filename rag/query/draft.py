"""An answer as it is being written: its text, its citations, and the events that tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag.core.answers import Answer, Citation, SearchResult, Usage
from rag.generation.evidence import Passage, best_passage, cite, supporting_passage
from rag.generation.markers import Piece
from rag.query.trace import Trace
from rag.query.types import AnswerEvent, CitationEvent, DeltaEvent


@dataclass(slots=True, kw_only=True)
class Draft:
    """Grows by events only, so that the joined deltas are the text; ``heard`` is all that the generator said."""

    question: str
    passages: Sequence[Passage] = ()
    citations: dict[int, Citation] = field(default_factory=dict)
    usage: Usage | None = None
    heard: str = ""
    invalid_markers: int = 0
    finish_reason: str | None = None
    _parts: list[str] = field(default_factory=list)
    _claim: str = ""

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._parts)

    def say(self, text: str) -> Iterator[AnswerEvent]:
        """Add text as it is."""
        if text:
            self._parts.append(text)
            yield DeltaEvent(text=text)

    def add(self, piece: Piece) -> Iterator[AnswerEvent]:
        """Add what the marker filter let through, with a citation for each marker that is new."""
        yield from self.say(piece.text)
        self._claim += piece.text
        if piece.markers:
            for marker in piece.markers:
                yield from self._quote(marker)
            self._claim = ""

    def extract(self, sentences: Sequence[tuple[str, Citation]]) -> Iterator[AnswerEvent]:
        """Add extracted sentences, after a blank line where something was said before."""
        gap = "\n\n" if self._parts else ""
        for text, citation in sentences:
            yield from self.say(gap + text)
            yield from self._cite(citation)
            gap = " "

    def match(self) -> Iterator[AnswerEvent]:
        """Attach the evidence that supports the text best, when the model named none."""
        if self.citations:
            return
        passage = supporting_passage(self.passages, question=self.question, answer=self.text)
        if passage is not None:
            yield from self.say(f" [{passage.evidence.marker}]")
            yield from self._cite(cite(passage, model=False))

    def finish(self, search: SearchResult, trace: Trace) -> Answer:
        """The whole answer; the search's reports come first."""
        return Answer(
            text=self.text,
            citations=tuple(self.citations.values()),
            search=search,
            degraded=(*search.degraded, *trace.degraded),
            skipped=(*search.skipped, *trace.skipped),
            timings={**search.timings, **trace.timings},
            usage=self.usage or Usage(),
            invalid_markers=self.invalid_markers,
            finish_reason=self.finish_reason,
        )

    def _quote(self, marker: int) -> Iterator[AnswerEvent]:
        own = [passage for passage in self.passages if passage.evidence.marker == marker]
        if marker not in self.citations and own:
            passage = best_passage(own, self._claim, self.text, self.question) or own[0]
            yield from self._cite(cite(passage, model=True))

    def _cite(self, citation: Citation) -> Iterator[AnswerEvent]:
        if citation.marker not in self.citations:
            self.citations[citation.marker] = citation
            yield CitationEvent(citation=citation)
