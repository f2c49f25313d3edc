"""Names that come from outside."""

from __future__ import annotations

from uuid import UUID

import pytest

from rag.api.names import collection_name, document_id
from rag.core.errors import DocumentNotFoundError, InvalidRequestError
from rag.core.names import source_name


@pytest.mark.parametrize("name", ["notes", "研究资料", "two words", "a" * 128, "a.b-c_d", "100%"])
def test_any_text_without_slash_and_controls_names_a_collection(name: str) -> None:
    assert collection_name(name) == name


def test_a_collections_name_is_normalised() -> None:
    assert collection_name("cafe\u0301") == "café"


@pytest.mark.parametrize("name", ["", "   ", "a/b", "a\nb", "a\0b", "a\u202eb", "a" * 129, ".", ".."])
def test_other_texts_name_no_collection(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        collection_name(name)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("reports/2024/年度报告.pdf", "reports/2024/年度报告.pdf"),
        ("evil\u202efdp.exe", "evilfdp.exe"),
        ("line\r\nbreak\x07.txt", "linebreak.txt"),
        ("  padded.md ", "padded.md"),
        ("../../etc/passwd", "../../etc/passwd"),
    ],
)
def test_a_source_keeps_what_can_be_seen(given: str, kept: str) -> None:
    assert source_name(given) == kept


@pytest.mark.parametrize("source", ["", " ", "\x07\u202e", "a" * 1025, "a\0b.txt"])
def test_a_source_that_is_empty_or_endless_or_holds_nul_is_refused(source: str) -> None:
    with pytest.raises(InvalidRequestError):
        source_name(source)


def test_a_document_id_is_a_uuid() -> None:
    id = "6f1c3f0a-6a55-5d0c-9d0e-1b7f3f4f6c11"

    assert document_id(id) == UUID(id)


def test_an_id_of_another_form_is_an_unknown_document() -> None:
    with pytest.raises(DocumentNotFoundError):
        document_id("17")
