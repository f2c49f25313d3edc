"""The answer stage: generate from the evidence, or say what the evidence itself says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter
from typing import cast

from rag.core.answers import Delta, SearchResult, Usage
from rag.core.errors import GenerationError
from rag.core.ports import Generator
from rag.deadline import Deadline
from rag.generation.evidence import Evidence, Passage, key_passages, read_passages
from rag.generation.extractive import extract_answer, nothing_found
from rag.generation.markers import MarkerFilter
from rag.generation.prompt import Prompt, build_prompt
from rag.lexical import script_language
from rag.query.draft import Draft
from rag.query.languages import unread_language
from rag.query.trace import STAGE_FAILURES, Trace, bounded
from rag.query.types import AnswerEvent, AnswerRequest, QueryOptions
from rag.telemetry import LLM_FIRST_TOKEN_SECONDS, LLM_TOKENS, stage_timer

_FIRST_TOKEN_SHARE = 0.6
_COMPLETION_SHARE = 0.9
_CONTEXT_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """One answer being written: what was asked and found, and where it goes."""

    request: AnswerRequest
    evidence: list[Evidence]
    draft: Draft
    trace: Trace
    deadline: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStage:
    """Writes an answer to a finished search into a draft."""

    generator: Generator | None
    options: QueryOptions

    async def write(self, writing: Writing) -> AsyncGenerator[AnswerEvent, None]:
        """The events of the answer; closing the iterator closes the generator's stream."""
        draft, trace = writing.draft, writing.trace
        if not writing.evidence:
            for event in draft.say(nothing_found(script_language(draft.question))):
                yield event
            return
        try:
            async with aclosing(self._generate(writing)) as events:
                async for event in events:
                    yield event
        except STAGE_FAILURES as error:
            trace.degrade("generation", error)
        if draft.citations or (draft.text and not trace.degraded):
            return
        with stage_timer("extract", trace.timings):
            sentences = await asyncio.to_thread(extract_answer, draft.question, writing.evidence)
        for event in draft.extract(sentences):
            yield event

    async def _generate(self, writing: Writing) -> AsyncGenerator[AnswerEvent, None]:
        """Says nothing where the generator does not apply. Raises ``GenerationError``."""
        request, draft = writing.request, writing.draft
        generator = self._applicable(writing)
        if generator is None:
            return
        readable = [each for each in writing.evidence if unread_language(generator.languages, each.hit.text) is None]
        tokens = min(request.max_tokens or self.options.max_tokens, int(generator.context_tokens * _CONTEXT_SHARE))
        prompt = await _pack(generator, readable, writing, tokens)
        if prompt is None:
            return
        temperature = self.options.temperature if request.temperature is None else request.temperature
        stream = generator.stream(prompt.messages, max_tokens=tokens, temperature=temperature)
        with stage_timer("generate", writing.trace.timings):
            async with aclosing(_filtered(stream, prompt, draft, writing.deadline)) as events:
                async for event in events:
                    yield event
            if draft.usage is None:
                _count(draft, await _own_usage(generator, prompt, draft.heard))

    def _applicable(self, writing: Writing) -> Generator | None:
        if self.generator is None:
            writing.trace.skip("generation", "not configured")
            return None
        best = writing.evidence[0].hit.text
        language = unread_language(self.generator.languages, writing.draft.question, best)
        if language is None:
            return self.generator
        writing.trace.skip("generation", f"language: {language}")
        return None


async def _pack(generator: Generator, evidence: list[Evidence], writing: Writing, tokens: int) -> Prompt | None:
    question = writing.draft.question
    with stage_timer("pack", writing.trace.timings):
        writing.draft.passages, key = await asyncio.to_thread(_read, evidence, question)
        prompt = await bounded(
            build_prompt(
                question,
                evidence,
                key=key,
                history=writing.request.history,
                generator=generator,
                max_tokens=tokens,
            ),
            deadline=writing.deadline,
            late=GenerationError,
            stage="the tokenizer",
            share=_FIRST_TOKEN_SHARE,
        )
    if prompt is None:
        writing.trace.skip("generation", "context: the question leaves no room for evidence")
        return None
    total = len(writing.evidence)
    if dropped := total - len(evidence) + prompt.dropped:
        writing.trace.skip("pack", f"{dropped} of {total} chunks were left out")
    return prompt


def _read(evidence: list[Evidence], question: str) -> tuple[list[Passage], list[Passage]]:
    passages = read_passages(evidence)
    return passages, key_passages(passages, question)


def number_evidence(search: SearchResult) -> list[Evidence]:
    """The hits that hold text, each under its place in the search as its marker."""
    return [
        Evidence(marker=place, hit=hit, label=search.documents[hit.document])
        for place, hit in enumerate(search.hits, 1)
        if hit.text.strip()
    ]


async def _filtered(
    stream: AsyncIterator[Delta], prompt: Prompt, draft: Draft, deadline: Deadline
) -> AsyncGenerator[AnswerEvent, None]:
    known = frozenset(each.marker for each in prompt.evidence)
    markers = MarkerFilter(valid=known, one_paragraph=prompt.focused)
    try:
        async with aclosing(_timed(stream, deadline)) as deltas:
            async for delta in deltas:
                _account(draft, delta)
                for piece in markers.feed(delta.text):
                    for event in draft.add(piece):
                        yield event
                if markers.ended:
                    draft.finish_reason = "stop"
                    break
    finally:
        draft.invalid_markers = markers.invalid
    for piece in markers.finish():
        for event in draft.add(piece):
            yield event
    if not draft.text:
        raise GenerationError("the generator said nothing")
    for event in draft.match():
        yield event


async def _timed(stream: AsyncIterator[Delta], deadline: Deadline) -> AsyncGenerator[Delta, None]:
    """The same deltas; raises ``GenerationError`` when the first or the last of them is late."""
    began = perf_counter()
    whole = Deadline.after(deadline.limit(share=_COMPLETION_SHARE), clock=deadline.clock)
    wait, late = deadline.limit(share=_FIRST_TOKEN_SHARE), "the generator did not begin in time"
    first = True
    async with aclosing(cast("AsyncGenerator[Delta, None]", stream)) as deltas:
        while True:
            try:
                async with asyncio.timeout(wait):
                    delta = await anext(deltas, None)
            except TimeoutError as error:
                raise GenerationError(late) from error
            if delta is None:
                return
            if first:
                LLM_FIRST_TOKEN_SECONDS.observe(perf_counter() - began)
            first = False
            yield delta
            wait, late = whole.remaining(), "the generator did not finish in time"


def _account(draft: Draft, delta: Delta) -> None:
    draft.finish_reason = delta.finish_reason or draft.finish_reason
    draft.heard += delta.text
    if delta.usage is not None:
        _count(draft, delta.usage)


def _count(draft: Draft, usage: Usage) -> None:
    draft.usage = usage
    LLM_TOKENS.labels("prompt").inc(usage.prompt_tokens)
    LLM_TOKENS.labels("completion").inc(usage.completion_tokens)


async def _own_usage(generator: Generator, prompt: Prompt, heard: str) -> Usage:
    """Counted here: an upstream whose stream was ended early never says it."""
    *told, said = await generator.count_tokens([*(message.content for message in prompt.messages), heard])
    return Usage(prompt_tokens=sum(told), completion_tokens=said)
