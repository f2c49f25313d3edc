"""Error lines of our own commands, read back."""

from __future__ import annotations

import pytest

from rag.core.errors import ConfigurationError, PortTakenError, UnknownStoreError
from rag.supervision.refusal import read_refusal


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("anchorage: no such store (unknown_store)", UnknownStoreError, "no such store"),
        ("port 80 (of x) is taken (port_taken)\n", PortTakenError, "port 80 (of x) is taken"),
        ("anchorage: bad (configuration)", ConfigurationError, "bad"),
        ("anything else", ConfigurationError, "anything else"),
    ],
)
def test_a_line_becomes_the_error_that_it_was(line: str, kind: type[ConfigurationError], message: str) -> None:
    error = read_refusal(line)

    assert (type(error), error.message) == (kind, message)
