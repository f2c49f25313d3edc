"""The encoding of a text is recognised and recorded; nothing is replaced on the way."""

from __future__ import annotations

import random

import pytest

from ingest.parsing.encodings import SAMPLE_BYTES, decode
from rag.core.errors import ParseError

CHINESE = "数据库每天晚上都要备份，这样出了问题才能恢复。"
TRADITIONAL = "資料庫每天晚上都要備份，這樣出了問題才能恢復。"
JAPANESE = "データベースは毎晩バックアップする必要があります。"
KOREAN = "데이터베이스는 매일 밤 백업해야 합니다."
RUSSIAN = "Базу данных нужно копировать каждую ночь, чтобы потом её восстановить."
GERMAN = "Die Datenbank muss jede Nacht gesichert werden, natürlich auch über Feiertage, so schön es wäre."


@pytest.mark.parametrize(
    ("text", "codec", "expected"),
    [
        (CHINESE, "gb18030", "gb18030"),
        (CHINESE[:7], "gb2312", "gb18030"),
        ("今天天气很好。", "gb18030", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        (JAPANESE, "shift_jis", "cp932"),
        (JAPANESE, "euc_jp", "euc_jp"),
        (KOREAN, "euc_kr", "cp949"),
        (RUSSIAN, "koi8_r", "koi8_r"),
        (RUSSIAN, "cp1251", "cp1251"),
        (GERMAN, "iso8859_1", "cp1252"),
        (CHINESE, "utf-8", "utf-8"),
        (CHINESE, "utf-8-sig", "utf-8"),
        (CHINESE, "utf-16", "utf-16"),
        (CHINESE, "utf-32", "utf-32"),
        (GERMAN, "utf-16-le", "utf-16-le"),
        (GERMAN, "utf-16-be", "utf-16-be"),
        (GERMAN, "utf-32-le", "utf-32-le"),
        ("plain words", "ascii", "utf-8"),
        ("", "ascii", "utf-8"),
    ],
)
def test_encodings_are_recognised(text: str, codec: str, expected: str) -> None:
    decoded = decode(text.encode(codec))

    assert (decoded.text, decoded.encoding) == (text, expected)


def test_a_declared_encoding_is_used_where_the_bytes_allow_it() -> None:
    assert decode("été".encode("cp1252"), declared=["iso-8859-1"]).text == "été"


def test_a_wrong_declaration_is_overruled_by_the_bytes() -> None:
    assert decode(CHINESE.encode("gb18030"), declared=["utf-8", "no-such-encoding"]).text == CHINESE


def test_a_long_text_is_recognised_from_its_beginning() -> None:
    text = CHINESE * (SAMPLE_BYTES // 20)

    assert decode(text.encode("gb18030")).text == text


def test_bytes_of_no_encoding_are_refused() -> None:
    with pytest.raises(ParseError) as caught:
        decode(random.Random(0).randbytes(3000))

    assert caught.value.reason == "undecodable"


def test_escapes_of_iso_2022_are_not_taken_for_ascii() -> None:
    decoded = decode(JAPANESE.encode("iso2022_jp"))

    assert (decoded.text, decoded.encoding) == (JAPANESE, "iso2022_jp_2")


@pytest.mark.parametrize(
    "text", ["所有的分类是由最长的跑道量出来。", CHINESE * 300, "第一行\n第二行\n", JAPANESE, KOREAN]
)
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_wide_text_without_a_mark_and_with_few_ascii_characters_is_recognised(text: str, codec: str) -> None:
    decoded = decode(text.encode(codec))

    assert (decoded.text, decoded.encoding) == (text, codec)


def test_letters_that_no_reading_makes_words_of_are_refused() -> None:
    with pytest.raises(ParseError) as caught:
        decode("บ้านเมือง ԱԲԳԴԵԶ ".encode().translate(bytes(range(128)) + bytes(range(255, 127, -1))) * 20)

    assert caught.value.reason == "undecodable"
