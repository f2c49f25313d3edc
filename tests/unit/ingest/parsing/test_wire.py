"""What a child says is checked before it is used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.parsing.wire import PREFIX, Reply, WireError, read_reply, reply_frame
from rag.core.types import Block, ParsedDocument, Quality


def split(content: bytes) -> tuple[bytes, bytes]:
    header, body = PREFIX.unpack_from(content)
    assert len(content) == PREFIX.size + header + body
    return content[PREFIX.size : PREFIX.size + header], content[PREFIX.size + header :]


def test_a_document_arrives_as_it_was_sent() -> None:
    document = ParsedDocument(
        text="标题\n\n😀 text",
        blocks=(
            Block(start=0, end=4, headings=("标题",), page=1),
            Block(start=4, end=10, headings=("标题",), kind="table"),
        ),
        title="标题",
        quality=Quality.FULL,
        encoding="gb18030",
    )

    reply = read_reply(*split(reply_frame(Reply(parser="text", peak_bytes=7, document=document))))

    assert reply == Reply(parser="text", peak_bytes=7, document=document)


def test_a_failure_arrives_as_it_was_sent() -> None:
    failure = Reply(parser="pdf", peak_bytes=7, code="encrypted", message="locked")

    assert read_reply(*split(reply_frame(failure))) == failure


@pytest.mark.parametrize(
    "blocks",
    [
        (Block(start=0, end=3),),
        (Block(start=1, end=5),),
        (Block(start=0, end=9),),
        (Block(start=0, end=3), Block(start=2, end=5)),
        (),
    ],
)
def test_blocks_that_do_not_tile_the_text_are_refused(blocks: tuple[Block, ...]) -> None:
    content = reply_frame(Reply(parser="x", peak_bytes=0, document=ParsedDocument(text="hello", blocks=blocks)))

    with pytest.raises(WireError):
        read_reply(*split(content))


def test_text_with_nul_is_refused() -> None:
    document = ParsedDocument(text="a\x00", blocks=(Block(start=0, end=2),))

    with pytest.raises(WireError):
        read_reply(*split(reply_frame(Reply(parser="x", peak_bytes=0, document=document))))


@given(header=st.binary(max_size=200), body=st.binary(max_size=20))
def test_noise_is_refused_and_nothing_else_happens(header: bytes, body: bytes) -> None:
    with pytest.raises(WireError):
        read_reply(header, body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["parser", "peak", "code", "message", "paths", "blocks", "title", "quality", "encoding"]
                ),
                inner,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_a_reply_or_refused(value: object) -> None:
    import json

    try:
        reply = read_reply(json.dumps(value).encode(), b"text")
    except WireError:
        return

    assert reply.document is None or reply.document.text == "text"
