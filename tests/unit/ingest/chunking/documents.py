"""Documents and tokenizers for the tests of the chunkers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingest.parsing.assembly import Assembly
from rag.core.types import Chunk, ParsedDocument

_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+|[^\w\s]")


class WordTokens:
    """A token is a word, a CJK character or a mark; white space is none."""

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [_array([match.span() for match in _WORD.finditer(text)]) for text in texts]


class PairTokens:
    """A token is two characters wherever they stand, so that pieces have other tokens than the whole."""

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [_array([(at, min(at + 2, len(text))) for at in range(0, len(text), 2)]) for text in texts]


def _array(spans: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


SENTENCES = st.sampled_from(
    [
        "One short sentence. ",
        "数据库如何备份？",
        "备份很重要。",
        "バックアップは大切です。",
        "النسخ الاحتياطي مهم؟ ",
        "a\n",
        "word " * 30,
        "长" * 70,
        "x" * 50,
        "Ok! ",
        "\n\n",
        "a | b | c\n",
        "😀 ",
        "👩‍👩‍👧‍👦é",
    ]
)
PARTS = st.tuples(st.sampled_from(["text", "table", "code", "h1", "h2"]), st.lists(SENTENCES, max_size=12).map("".join))


@st.composite
def documents(draw: st.DrawFn) -> ParsedDocument:
    """Documents of two sections a page, in several languages, or without any sentence."""
    assembly = Assembly()
    for kind, text in draw(st.lists(PARTS, max_size=12)):
        if kind in ("h1", "h2"):
            assembly.heading(int(kind[1]), text[:40], page=1)
        else:
            assembly.add(text, kind=kind, page=draw(st.sampled_from([1, 2])))  # type: ignore[arg-type]
    return assembly.document()


def document_of(*parts: tuple[str, str]) -> ParsedDocument:
    """A document of ``(kind, text)``, where the kind may be ``heading``."""
    assembly = Assembly()
    for kind, text in parts:
        if kind == "heading":
            assembly.heading(1, text)
        else:
            assembly.add(text, kind=kind)  # type: ignore[arg-type]
    return assembly.document()


def uncovered(document: ParsedDocument, chunks: Sequence[Chunk]) -> str:
    """What of the text is in no chunk, without white space."""
    kept = list(document.text)
    for chunk in chunks:
        kept[chunk.start : chunk.end] = " " * (chunk.end - chunk.start)
    return "".join(kept).strip()
