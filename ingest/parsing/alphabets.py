"""Which single-byte encoding a text is in, told by its words: in the right one each is spelled as a language spells.

Statistics of bytes take Czech, Polish and Turkish for Western European, and short Russian for Greek. A word read in
the wrong encoding has letters that no one language has together, signs between its letters, or capitals in its midst.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LIKELY = 0.85
"""Share of words from which on an encoding is taken."""

_WESTERN = (
    "äöüß", "àâæçéèêëîïôœùûüÿ", "áéíñóúüªº", "áâãàçéêíóôõúüªº", "àèéìíîòóùú", "åäöéüà",
    "æøåéòôü", "áðéíóúýþæö", "éëïóöüáèê", "àçèéíïòóúü·",
)  # fmt: skip
_CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýžäĺľôŕ", "áéíóöőúüű", "ăâîşţ", "čćđšž", "äöüß")
_CYRILLIC = (
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
    "абвгґдеєжзиіїйклмнопрстуфхцчшщьюяў",
    "абвгдђежзијклљмнњопрстћуфхцчџшѓѕќ",
)
_GREEK = ("αάβγδεέζηήθιίϊΐκλμνξοόπρσςτυύϋΰφχψωώ",)
_HEBREW = ("אבגדהוזחטיךכלםמןנסעףפץצקרשת",)
_ARABIC = ("ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي",)
_FREQUENT = frozenset("оеаинтсрвлкмдпуяαοιετσνηυρπκςάίיוהלאתרבמשנالينمتروبةعدفهسأ")
_FREQUENT_ENOUGH = 0.6
"""Of the letters of a text in no Latin script; in a wrong reading it is about half."""
_SHOUTED = 0.15
"""What a text in capitals alone is less likely."""
_ALPHABETS: dict[str, Sequence[str]] = {
    "cp1252": _WESTERN,
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp1254": ("çğıöşüâîû",),
    "cp1257": ("āčēģīķļņšūž", "ąčęėįšųūž", "äõöüšž"),
    "cp1251": _CYRILLIC,
    "koi8_r": _CYRILLIC,
    "koi8_u": _CYRILLIC,
    "cp866": _CYRILLIC,
    "iso8859_5": _CYRILLIC,
    "cp1253": _GREEK,
    "cp1255": _HEBREW,
    "cp1256": _ARABIC,
    "iso8859_6": _ARABIC,
}
_SETS = {encoding: [frozenset(letters) for letters in alphabets] for encoding, alphabets in _ALPHABETS.items()}
_LATIN = frozenset({"cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257"})
_WORDS = re.compile(r"[^\W\d_]+")
_SIGNS = re.compile(r"[\x80-\x9f\u2500-\u25ff]|(?<=[^\W\d_])[¡-¦¨©«-´¶¸»-¿×÷](?=[^\W\d_])")
"""Controls and drawings anywhere, others between letters."""
_SAMPLE_CHARACTERS = 20_000


def likeliest(sample: bytes) -> str | None:
    """The encoding in which nearly all words are spelled well, the first of those that are alike; ``None`` without."""
    readings = {encoding: _spelling(sample, encoding) for encoding in _SETS}
    best = max(readings, key=lambda encoding: readings[encoding])
    return best if readings[best][0] >= LIKELY else None


def is_latin(text: str) -> bool:
    """Whether most of the words with letters beyond ASCII are spelled with ASCII letters for the most part."""
    words = _foreign_words(text)
    mixed = sum(sum(map(str.isascii, word)) * 2 >= len(word) - 1 for word in words)
    return mixed * 2 >= len(words)


def _spelling(sample: bytes, encoding: str) -> tuple[float, float]:
    """Share of words that are spelled well, and of letters that are frequent, which tells other scripts apart."""
    try:
        text = sample.decode(encoding)[:_SAMPLE_CHARACTERS]
    except UnicodeDecodeError:
        return (0.0, 0.0)
    words = _foreign_words(text)
    if not words:
        return (0.0, 0.0)
    latin = encoding in _LATIN
    good = max(sum(_spelled(word, letters, whole=not latin) for word in words) for letters in _SETS[encoding])
    together = "".join(words)
    frequent = sum(letter in _FREQUENT for letter in together.lower()) / len(together)
    if not latin and frequent < _FREQUENT_ENOUGH:
        return (0.0, 0.0)
    shouted = _SHOUTED if together.isupper() else 0.0
    return (round(good / (len(words) + len(_SIGNS.findall(text))), 2), frequent - shouted)


def _foreign_words(text: str) -> list[str]:
    return [word for word in _WORDS.findall(text) if not word.isascii() and len(word) > 1]


def _spelled(word: str, letters: frozenset[str], *, whole: bool) -> bool:
    """Whether all letters beyond ASCII (as a ``whole``, all) are of the alphabet, and capitals where they may be."""
    if word[1:] != word[1:].lower() and not word.isupper():
        return False
    return all(letter in letters or (letter.isascii() and not whole) for letter in word.lower())
