"""One answer, event by event, with ports in memory."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from rag.core.answers import Answer, Message
from rag.core.errors import DegradedError, GenerationError, InvalidRequestError, StoreError
from rag.query import (
    AnswerEvent,
    AnswerRequest,
    CitationEvent,
    DeltaEvent,
    DoneEvent,
    HitsEvent,
    QueryPipeline,
    SearchRequest,
)
from tests.unit.rag.query.fakes import FakeGenerator, ask, make_hit, make_pipeline, serving, soon

ORCHARD = "The orchard grows 14 apple varieties. The oldest trees were planted in 1923 by Edith Marlow. It is old."
PRESS = "The press handles 400 kilograms an hour. Clean the press with warm water and citric acid after each use."
CHINESE = "果园种植十四个苹果品种。最老的树由玛洛于一九二三年种下。收获从九月第二周开始。"


def pipeline_over(*texts: str, generator: FakeGenerator | None = None, start: int = 0) -> QueryPipeline:
    hits = [make_hit(f"d{place}", text, start=start) for place, text in enumerate(texts)]
    return make_pipeline(*serving(*hits), generator=generator)


async def events_of(pipeline: QueryPipeline, search: SearchRequest, **options: object) -> list[AnswerEvent]:
    request = AnswerRequest(search=search, **options)  # type: ignore[arg-type]
    async with aclosing(pipeline.answer(request, soon())) as events:
        return [event async for event in events]


def answer_of(events: list[AnswerEvent]) -> Answer:
    """The answer, after checking what holds for every stream of events."""
    first, *_, last = events
    assert isinstance(first, HitsEvent)
    assert isinstance(last, DoneEvent)
    deltas = [event.text for event in events if isinstance(event, DeltaEvent)]
    assert all(deltas)
    assert "".join(deltas) == last.answer.text
    cited = [event.citation for event in events if isinstance(event, CitationEvent)]
    assert tuple(cited) == last.answer.citations
    for citation in cited:
        hit = first.search.hits[citation.marker - 1]
        assert citation.document == hit.document
        assert citation.quote == hit.text[citation.start - hit.start : citation.end - hit.start] != ""
    return last.answer


async def test_an_answer_is_streamed_with_a_quote_for_each_marker() -> None:
    generator = FakeGenerator(deltas=["Edith Marlow planted", " the oldest trees [", "1", "]", "."])

    events = await events_of(pipeline_over(ORCHARD, PRESS, generator=generator, start=1000), ask("Who planted them?"))

    answer = answer_of(events)
    assert answer.text == "Edith Marlow planted the oldest trees [1]."
    (citation,) = answer.citations
    assert citation.quote == "The oldest trees were planted in 1923 by Edith Marlow."
    assert (citation.start, citation.origin) == (1000 + ORCHARD.index("The oldest"), "model")
    assert (answer.usage.completion_tokens, answer.finish_reason, answer.degraded) == (5, "stop", ())
    assert {"generate", "answer", "retrieve"} <= set(answer.timings)


async def test_a_marker_that_names_nothing_packed_is_removed_and_counted() -> None:
    generator = FakeGenerator(deltas=["The press is cleaned with warm water [7] [2], not chlorine [0]."])

    answer = answer_of(await events_of(pipeline_over(ORCHARD, PRESS, generator=generator), ask()))

    assert answer.text == "The press is cleaned with warm water [2], not chlorine."
    assert [citation.marker for citation in answer.citations] == [2]
    assert answer.invalid_markers == 2


async def test_an_answer_without_a_marker_gets_the_best_supported_sentence() -> None:
    generator = FakeGenerator(deltas=["It is cleaned with warm water ", "and citric acid."])

    answer = answer_of(
        await events_of(pipeline_over(ORCHARD, PRESS, generator=generator), ask("How is the press cleaned?"))
    )

    assert answer.text == "It is cleaned with warm water and citric acid. [2]"
    (citation,) = answer.citations
    assert (citation.origin, citation.quote) == (
        "matched",
        "Clean the press with warm water and citric acid after each use.",
    )


async def test_what_follows_a_blank_line_is_not_waited_for() -> None:
    generator = FakeGenerator(deltas=["In 1923 [1].", "\n", "\n", "In 1923 [1]. And"], hang=True)

    answer = answer_of(await events_of(pipeline_over(ORCHARD, generator=generator), ask()))

    assert answer.text == "In 1923 [1]."
    assert generator.closed == 1
    assert answer.degraded == ()


async def test_tokens_of_an_answer_that_was_ended_early_are_counted_here() -> None:
    generator = FakeGenerator(deltas=["In 1923 [1].", "\n", "\n", "In 1923 [1]. And"], hang=True)

    answer = answer_of(await events_of(pipeline_over(ORCHARD, generator=generator), ask()))

    (prompt,) = generator.prompts
    assert answer.usage.prompt_tokens == sum(await generator.count_tokens([message.content for message in prompt]))
    assert 0 < answer.usage.completion_tokens <= sum(await generator.count_tokens(["".join(generator.deltas)]))


async def test_closing_the_events_closes_the_generators_stream() -> None:
    generator = FakeGenerator(deltas=["In ", "1923"], hang=True)
    events = pipeline_over(ORCHARD, generator=generator).answer(AnswerRequest(search=ask()), soon())
    while not isinstance(await anext(events), DeltaEvent):
        pass

    await events.aclose()

    assert generator.closed == 1


@pytest.mark.parametrize(
    "generator",
    [FakeGenerator(fault=GenerationError()), FakeGenerator(hang=True), FakeGenerator(), FakeGenerator(deltas=["[9]"])],
    ids=["down", "late", "silent", "marker only"],
)
async def test_a_generator_that_fails_leaves_an_extractive_answer(generator: FakeGenerator) -> None:
    request = AnswerRequest(search=ask("Who planted the oldest trees?"))
    pipeline = pipeline_over(PRESS, ORCHARD, generator=generator)

    events = [event async for event in pipeline.answer(request, soon(1.0))]

    answer = answer_of(events)
    assert answer.degraded == ("generation",)
    assert answer.text == "The oldest trees were planted in 1923 by Edith Marlow. [2]"
    assert [citation.origin for citation in answer.citations] == ["matched"]
    assert generator.closed == 1


async def test_a_generator_that_breaks_off_leaves_its_words_and_the_evidence() -> None:
    generator = FakeGenerator(deltas=["The oldest trees were"], fault=GenerationError())

    answer = answer_of(await events_of(pipeline_over(ORCHARD, generator=generator), ask("Who planted the trees?")))

    assert answer.text.startswith("The oldest trees were\n\nThe oldest trees were planted in 1923")
    assert answer.degraded == ("generation",)
    assert len(answer.citations) == 1


async def test_strict_refuses_an_extractive_answer_in_place_of_a_failed_one() -> None:
    generator = FakeGenerator(fault=GenerationError())

    with pytest.raises(DegradedError, match="generation"):
        await events_of(pipeline_over(ORCHARD, generator=generator), ask(strict=True))


@pytest.mark.parametrize(
    ("question", "text", "reason"),
    [
        ("最老的树是谁种的？", CHINESE, "language: zh"),
        ("最老的树是谁种的？", ORCHARD, "language: zh"),
        ("Who planted the oldest trees?", CHINESE, "language: zh"),
        ("Who planted the oldest trees?", ORCHARD, None),
    ],
)
async def test_a_generator_is_skipped_for_a_language_of_question_or_evidence_that_it_lacks(
    question: str, text: str, reason: str | None
) -> None:
    generator = FakeGenerator(deltas=["Edith Marlow [1]."], languages=frozenset({"en"}))

    answer = answer_of(await events_of(pipeline_over(text, generator=generator), ask(question)))

    assert [(skip.stage, skip.reason) for skip in answer.skipped if skip.stage == "generation"] == (
        [("generation", reason)] if reason else []
    )
    assert bool(generator.prompts) is (reason is None)
    assert (answer.degraded, len(answer.citations)) == ((), 1)


async def test_chunks_in_a_language_that_the_generator_lacks_are_kept_from_it() -> None:
    generator = FakeGenerator(deltas=["Edith Marlow [1]."], languages=frozenset({"en"}))

    answer = answer_of(await events_of(pipeline_over(ORCHARD, CHINESE, CHINESE, generator=generator), ask("Who?")))

    assert "果园" not in generator.prompts[0][-1].content
    assert ("pack", "2 of 3 chunks were left out") in [(skip.stage, skip.reason) for skip in answer.skipped]


async def test_a_chinese_question_is_answered_by_the_chinese_sentence_that_says_it() -> None:
    answer = answer_of(await events_of(pipeline_over(CHINESE), ask("最老的树是谁种下的？")))

    assert answer.text == "最老的树由玛洛于一九二三年种下。 [1]"
    assert answer.citations[0].quote == "最老的树由玛洛于一九二三年种下。"
    assert ("generation", "not configured") in [(skip.stage, skip.reason) for skip in answer.skipped]


@pytest.mark.parametrize(("question", "words"), [("Who?", "Nothing about this"), ("谁种的？", "没有找到")])
async def test_without_hits_a_plain_sentence_says_so_without_citations(question: str, words: str) -> None:
    generator = FakeGenerator(deltas=["I made this up [1]."])

    answer = answer_of(await events_of(pipeline_over(generator=generator), ask(question)))

    assert words in answer.text
    assert (answer.citations, generator.prompts) == ((), [])


async def test_a_failed_store_ends_the_answer_before_its_first_event() -> None:
    corpus, store = serving(make_hit("a", ORCHARD))
    store.fault = StoreError()

    with pytest.raises(StoreError):
        await events_of(make_pipeline(corpus, store), ask())


async def test_the_earlier_turns_stand_between_prefix_and_question() -> None:
    generator = FakeGenerator(deltas=["Yes [1]."])
    history = (Message(role="user", content="Hello there"), Message(role="assistant", content="Good day"))

    await events_of(pipeline_over(ORCHARD, generator=generator), ask("And who?"), history=history)

    contents = [message.content for message in generator.prompts[0]]
    assert contents[-3:-1] == ["Hello there", "Good day"]
    assert contents[-1].endswith("Question: And who?")


async def test_chunks_that_do_not_fit_the_context_are_dropped_and_reported() -> None:
    generator = FakeGenerator(deltas=["Yes [1]."], context_tokens=4096)

    answer = answer_of(await events_of(pipeline_over(*[ORCHARD * 80] * 5, generator=generator), ask(), max_tokens=64))

    (skip,) = [skip for skip in answer.skipped if skip.stage == "pack"]
    assert "of 5 chunks were left out" in skip.reason


async def test_a_question_that_fills_the_context_is_answered_from_the_evidence() -> None:
    generator = FakeGenerator(deltas=["Yes [1]."], context_tokens=300)

    answer = answer_of(await events_of(pipeline_over(ORCHARD, generator=generator), ask("oldest trees " * 300)))

    assert [skip.stage for skip in answer.skipped if skip.stage == "generation"] == ["generation"]
    assert answer.citations


async def test_max_tokens_leave_half_of_the_context_to_the_prompt() -> None:
    generator = FakeGenerator(deltas=["Yes [1]."])

    await events_of(pipeline_over(ORCHARD, generator=generator), ask(), max_tokens=100_000)

    assert generator.max_tokens == 1024


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 0},
        {"temperature": 2.5},
        {"temperature": float("nan")},
        {"history": (Message(role="user", content="a\0b"),)},
        {"history": (Message(role="user", content="x" * 70_000),)},
        {"history": (Message(role="user", content="x"),) * 65},
    ],
)
async def test_options_outside_their_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError):
        await events_of(pipeline_over(ORCHARD), ask(), **options)
