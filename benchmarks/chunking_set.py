"""Five corpora with questions and the passages that answer them, as Chroma's evaluation of chunking has them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.datasets import shared_folder
from rag.core.types import Block, ParsedDocument

CORPORA = ("chatlogs", "state_of_the_union", "wikitexts", "pubmed", "finance")
SMALL = CORPORA[:3]
HEADED = "wikitexts"
"""The corpus that marks its headings, as ``= Title =`` and ``= = Section = =``."""

Span: TypeAlias = tuple[int, int]

_HEADING = re.compile(r"(?m)^ ?((?:= )+)(.+?)(?: =)+ *$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, the corpus that answers it, and the passages that do, in code points."""

    text: str
    corpus: str
    references: Sequence[Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkingSet:
    """The documents by name, and the questions about them."""

    documents: Mapping[str, ParsedDocument]
    questions: Sequence[Question]


def load_chunking_set(names: Sequence[str]) -> ChunkingSet:
    """Read the named corpora and their questions. Raises ``ConfigurationError`` without the shared data."""
    folder = shared_folder() / "data" / "chunking" / "chroma_general"
    documents = {name: _document(folder / "corpora" / f"{name}.md") for name in names}
    with (folder / "questions_df.csv").open(encoding="utf-8", newline="") as lines:
        questions = [_question(row) for row in csv.DictReader(lines) if row["corpus_id"] in documents]
    return ChunkingSet(documents=documents, questions=questions)


def _document(file: Path) -> ParsedDocument:
    text = file.read_bytes().decode()
    blocks = sections(text) if file.stem == HEADED else (Block(start=0, end=len(text)),)
    return ParsedDocument(text=text, blocks=tuple(blocks))


def _question(row: Mapping[str, str]) -> Question:
    references = [(each["start_index"], each["end_index"]) for each in json.loads(row["references"])]
    return Question(text=row["question"], corpus=row["corpus_id"], references=references)


def sections(text: str) -> Iterator[Block]:
    """A block for each heading with what follows it, and one for what is before the first."""
    found = [(each.start(), each[1].count("="), each[2].strip()) for each in _HEADING.finditer(text)]
    marks = found if found and found[0][0] == 0 else [(0, 0, ""), *found]
    path: list[tuple[int, str]] = []
    for (start, level, title), end in zip(marks, [*(mark[0] for mark in marks[1:]), len(text)], strict=True):
        path = [*(entry for entry in path if entry[0] < level), (level, title)] if title else []
        yield Block(start=start, end=end, headings=tuple(each for _, each in path))
