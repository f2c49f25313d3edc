"""Which encoding text is in. Nothing is ever replaced: bytes decode strictly or the document fails.

Order: byte order mark, UTF-16/32 told by their bytes, the declared encoding, ISO-2022 told by its escapes, UTF-8, then
a guess from a sample. A Chinese, Japanese or Korean text is guessed by how common its characters would be and a text in
letters by the spelling of its words, since statistics of byte pairs are wrong on short ones; the rest is left to
charset-normalizer over a short list. What would read as gibberish in every encoding is refused.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from charset_normalizer import CharsetMatch, from_bytes

from ingest.parsing.alphabets import is_latin, likeliest
from rag.core.errors import ParseError
from rag.core.media import wide_encoding

SAMPLE_BYTES = 65_536
CANDIDATES = (
    "gb18030", "big5", "cp932", "euc_jp", "cp949", "koi8_r", "cp1251", "cp1252", "cp1250", "cp1253", "cp1254",
    "cp1255", "cp1256", "iso8859_6", "cp874", "iso8859_1",
)  # fmt: skip
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16"),
)
# What a declaration means in practice is the superset that Windows and browsers read it as.
_SUPERSETS = {
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-1": "cp1252",
    "ascii": "cp1252", "big5": "big5hkscs",
}  # fmt: skip
_ESCAPES = re.compile(rb"\x1b\$\)?[@ABC]")
_KANA = "のにはをたがでてとしれさいあるものなかこうらまりきえよそくつ一日人年大本中国アイトスルンラーリロッコテレ"
_COMMON = {
    "gb18030": (
        "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然"
        "家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把"
        "机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果"
        "加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔"
        "更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展"
        "马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共"
        "确传师观清今切院让识候带导争运据库备份天气"
    ),
    "big5": (
        "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然"
        "家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把"
        "機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果"
        "加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾"
        "更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山金指克許統區保至隊形社便空決治展"
        "馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該交規萬取拉格望覺術領共"
        "確傳師觀清今切院讓識候帶導爭運"
    ),
    "cp932": _KANA,
    "euc_jp": _KANA,
    "cp949": (
        "이다는을의에가하고로를은지사도한나자기어서리인아시정그들있대일수해부전라보과상게여스니면제주것와적었구국원동장"
        "조요성만유년등신으안우비관공용위무중문"
    ),
}
_PUNCTUATION = "，。、：；？！「」（）"
_COMMON_SETS = {encoding: frozenset(letters + _PUNCTUATION) for encoding, letters in _COMMON.items()}
_COMMON_SETS |= dict.fromkeys(("utf-16-le", "utf-16-be"), frozenset[str]().union(*_COMMON_SETS.values()))
_COMMON_ENOUGH = 0.25
_WESTERN = "cp1252"
_CLOSE_CHAOS = 0.01
_CLOSE_COHERENCE = 0.1


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text and the encoding it was in."""

    text: str
    encoding: str


def decode(content: bytes, *, declared: Iterable[str] = ()) -> Decoded:
    """Decode strictly. Raises ``ParseError`` with reason ``undecodable`` if no candidate fits."""
    for mark, codec, name in _MARKS:
        if content.startswith(mark):
            found = _try(content, codec, name)
            if found is not None:
                return found
    for candidate in _plausible(content, declared):
        found = _try(content, candidate, candidate)
        if found is not None:
            return found
    raise ParseError("the text is in no encoding that could be recognised", code="undecodable")


def decode_plain(content: bytes) -> Decoded:
    """The same for a format that has no place for NUL. Raises ``ParseError``: ``undecodable``, ``malformed``."""
    decoded = decode(content)
    at = decoded.text.find("\0")
    if at >= 0:
        line = decoded.text.count("\n", 0, at) + 1
        raise ParseError(f"line {line} holds a NUL character, which is not text", code="malformed")
    return decoded


def _plausible(content: bytes, declared: Iterable[str]) -> Iterable[str]:
    wide = wide_encoding(content[: SAMPLE_BYTES // 16])
    if wide is not None:
        yield wide
    yield from filter(None, map(_known, declared))
    if _ESCAPES.search(content[:SAMPLE_BYTES]):
        yield "iso2022_jp_2"
        yield "iso2022_kr"
    yield "utf-8"
    yield from _guesses(sample_of(content))


def _known(declared: str) -> str | None:
    try:
        name = codecs.lookup(declared.strip()).name
    except (LookupError, ValueError):
        return None
    # Wide encodings are recognised by their bytes; a page that can be read to its declaration is not wide.
    return None if name.startswith(("utf-16", "utf-32", "utf-7")) else _SUPERSETS.get(name, name)


def sample_of(content: bytes) -> bytes:
    """The first bytes, cut at a line break or a space so that no character is cut in two."""
    if len(content) <= SAMPLE_BYTES:
        return content
    sample = content[:SAMPLE_BYTES]
    cut = max(sample.rfind(b"\n"), sample.rfind(b" "))
    return sample[:cut] if cut > 0 else sample


def _guesses(sample: bytes) -> Iterable[str]:
    scores = {encoding: _commonness(sample, encoding) for encoding in _COMMON_SETS}
    best = max(scores, key=lambda encoding: scores[encoding])
    if scores[best] >= _COMMON_ENOUGH:
        yield best
    spelled = likeliest(sample)
    if spelled is not None:
        yield spelled
    western = is_latin(sample.decode(_WESTERN, "replace"))
    matches = list(from_bytes(sample, cp_isolation=list(CANDIDATES)))
    if matches:
        yield _preferred(matches, western=western)
    if western:
        yield _WESTERN


def _preferred(matches: Sequence[CharsetMatch], *, western: bool) -> str:
    """Windows-1252 where it fits nearly as well as the best guess, since its neighbours share most letters."""
    best = matches[0]
    if western and _WESTERN in best.could_be_from_charset:
        return _WESTERN
    for match in matches:
        close = match.chaos - best.chaos < _CLOSE_CHAOS and best.coherence - match.coherence < _CLOSE_COHERENCE
        if western and match.encoding == _WESTERN and close:
            return _WESTERN
    return best.encoding


def _commonness(sample: bytes, encoding: str) -> float:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    letters = [letter for letter in text if ord(letter) > 0x7F and (letter.isalpha() or letter in _PUNCTUATION)]
    common = _COMMON_SETS[encoding]
    return sum(letter in common for letter in letters) / len(letters) if letters else 0.0


def _try(content: bytes, codec: str, name: str) -> Decoded | None:
    try:
        return Decoded(content.decode(codec), name)
    except (UnicodeDecodeError, LookupError):
        return None
