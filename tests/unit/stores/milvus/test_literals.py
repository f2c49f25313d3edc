"""Whatever a text holds, its literal is one token that means the text, to the server's grammar and to Lite's."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from milvus_lite.search.filter.tokens import TokenKind, tokenize

from stores.milvus.engine import Engine
from stores.milvus.literals import quote_for_lite, quote_for_server, values_for

SERVER, LITE, NEW = Engine(version=(2, 3, 5)), Engine(version=(3, 2, 2), lite=True), Engine(version=(2, 5, 0))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.text("\"'\\{}[]()\n\r\t🦜中 =orand1")
_SERVER_LITERAL = re.compile(r'"((?:[A-Za-z0-9 _.:=-]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*)"')
_CODE_POINT = re.compile(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


@given(TEXTS)
@example('" or "1" == "1')
@example("\\")
@example("\\u0022")
@example("{x0}")
def test_a_literal_for_the_server_is_ascii_without_quotes_and_reads_back_as_the_text(text: str) -> None:
    literal = quote_for_server(text)

    found = _SERVER_LITERAL.fullmatch(literal)
    assert found
    assert _CODE_POINT.sub(lambda code: chr(int(code[1] or code[2], 16)), found[1]) == text


@given(TEXTS)
@example('" or "1" == "1')
@example("\\")
@example("a\\\nb")
def test_a_literal_for_lite_is_one_token_that_holds_the_text(text: str) -> None:
    token, end = tokenize(quote_for_lite(text))

    assert (token.kind, token.value, end.kind) == (TokenKind.STRING, text, TokenKind.EOF)


@given(TEXTS)
def test_where_the_server_takes_parameters_no_text_is_in_the_condition(text: str) -> None:
    values = values_for(NEW)

    assert [values.write(text), values.write([text])] == ["{x0}", "{x1}"]
    assert values.parameters == {"x0": text, "x1": [text]}


@pytest.mark.parametrize("engine", [SERVER, LITE])
def test_numbers_booleans_and_lists_are_written_out(engine: Engine) -> None:
    values = values_for(engine)

    written = [values.write(each) for each in (5, -1.5, 1e300, True, ["a", "b"], [])]

    assert written == ["5", "-1.5", "1e+300", "true", '["a", "b"]', "[]"]
    assert values.parameters == {}
