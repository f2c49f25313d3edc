"""Which language a text is in, as far as its script tells: enough to know whether a model can read it."""

from __future__ import annotations

import re

UNDETERMINED = "und"
_SAMPLE = 16_384
_KANA_SHARE = 0.05
# One such character says about as much as three letters, so a Chinese question about "PostgreSQL" stays Chinese.
_IDEOGRAPH_WEIGHT = 3

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]")
_HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]")
_ALPHABETS = {
    "en": re.compile("[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a]"),
    "ru": re.compile("[\u0400-\u052f]"),
    "el": re.compile("[\u0370-\u0373\u0376-\u037d\u0386-\u03ff\u1f00-\u1fff]"),
    "ar": re.compile("[\u0620-\u064a\u0671-\u06d3\ufb50-\ufdff\ufe70-\ufefc]"),
    "he": re.compile("[\u05d0-\u05ea]"),
    "hi": re.compile("[\u0904-\u0939\u0958-\u0961\u0972-\u097f]"),
    "bn": re.compile("[\u0985-\u09b9\u09dc-\u09e1]"),
    "ta": re.compile("[\u0b83-\u0bb9]"),
    "te": re.compile("[\u0c05-\u0c39\u0c58-\u0c61]"),
    "th": re.compile("[\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46]"),
    "ka": re.compile("[\u10a0-\u10ff]"),
    "hy": re.compile("[\u0531-\u0556\u0561-\u0587]"),
}


def script_language(text: str) -> str:
    """ISO 639-1 code of the language that the script of most letters stands for, or ``und`` without letters.

    Latin is ``en``, Cyrillic ``ru``, Arabic ``ar`` and so on; Han is ``zh``, with kana among it ``ja``.
    """
    sample = text[:_SAMPLE]
    letters = {language: len(pattern.findall(sample)) for language, pattern in _ALPHABETS.items()}
    han, kana, hangul = (len(pattern.findall(sample)) for pattern in (_HAN, _KANA, _HANGUL))
    ideographs = "ja" if kana and kana >= _KANA_SHARE * (han + kana) else "zh"
    letters[ideographs] = _IDEOGRAPH_WEIGHT * (han + kana)
    letters["ko"] = _IDEOGRAPH_WEIGHT * hangul
    language, count = max(letters.items(), key=lambda pair: pair[1])
    return language if count else UNDETERMINED
