"""Text to term counts: Unicode words, folded, and bigrams where a script writes no spaces.

Compatibility forms, case and accents are folded (``Ａｃｃéｓ`` = ``acces``). A word is a run of letters, digits
and the marks that belong to them. Runs of Han, Hiragana, Katakana and Hangul become overlapping bigrams, a
single such character a term of its own. Nothing is stemmed and nothing is a stop word.

A term's id is a hash, so that no dictionary has to be shared; it is stored, so the folding and the hash
never change without a re-ingest.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import add

_CACHED_TERMS = 2**18

_MARKS_FOLDED = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_CJK = (
    "\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"
    "\u1100-\u11ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uf900-\ufaff\U00020000-\U0003ffff"
)


def _marks_kept() -> str:
    folded = re.compile(f"[{_MARKS_FOLDED}]")
    marks = (chr(code) for code in (*range(0x483, 0x2DFF), *range(0xA66F, 0xABEE)))
    return "".join(mark for mark in marks if unicodedata.category(mark)[0] == "M" and not folded.match(mark))


_FOLDED = re.compile(f"[{_MARKS_FOLDED}]+")
_LETTER = rf"[^\W_{_CJK}]"
_MARK = f"[{_marks_kept()}]"
_WORDS = re.compile(f"{_LETTER}+(?:{_MARK}+{_LETTER}*)*")
_ASCII_WORDS = re.compile(r"[0-9a-z]+")
_RUNS = re.compile(f"[{_CJK}]+")


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How often each term id occurs; ``length`` is the number of terms, repeats included."""

    counts: Mapping[int, int]
    length: int


def fold(text: str) -> str:
    """The text with compatibility forms, case and accents folded."""
    if text.isascii():
        return text.lower()
    bare = _FOLDED.sub("", unicodedata.normalize("NFKD", text)).casefold()
    return unicodedata.normalize("NFKC", _FOLDED.sub("", unicodedata.normalize("NFKD", bare)))


@lru_cache(maxsize=_CACHED_TERMS)
def term_id(term: str) -> int:
    """The unsigned 32-bit id of an already folded term, the same in every process and on every platform."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little")


def count_terms(text: str) -> TermCounts:
    """Analyze a text. Texts joined by a line break count as the sum of their parts."""
    terms = _terms(fold(text))
    counts: dict[int, int] = {}
    for term, count in terms.items():
        identity = term_id(term)
        counts[identity] = counts.get(identity, 0) + count
    return TermCounts(counts, terms.total())


def _terms(folded: str) -> Counter[str]:
    if folded.isascii():
        return Counter(_ASCII_WORDS.findall(folded))
    terms = Counter(_WORDS.findall(folded))
    for run in _RUNS.findall(folded):
        terms.update(map(add, run, run[1:]) if len(run) > 1 else (run,))
    return terms
