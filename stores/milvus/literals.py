"""How values get into a condition: as literals that nothing can break out of, or beside it as parameters."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from stores.milvus.engine import Engine

_PLAIN = frozenset(string.ascii_letters + string.digits + " _-.:=")
_LITE_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


Writable: TypeAlias = str | float | Sequence[Any]
"""A text, number, boolean, or a list of one of them."""


class Values(Protocol):
    """Turns each value into the text that stands for it, and keeps what has to travel beside the condition."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Values by name."""
        ...

    def write(self, value: Writable) -> str:
        """The text that stands for ``value``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """Values written out; a text goes through ``quote``."""

    quote: Callable[[str], str]
    parameters: dict[str, Any] = field(default_factory=dict)

    def write(self, value: Writable) -> str:
        """See :class:`Values`."""
        if isinstance(value, str):
            return self.quote(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(value)
        return f"[{', '.join(self.write(each) for each in value)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """Values as named parameters."""

    parameters: dict[str, Any] = field(default_factory=dict)

    def write(self, value: Writable) -> str:
        """See :class:`Values`."""
        name = f"x{len(self.parameters)}"
        self.parameters[name] = value if isinstance(value, str | int | float) else list(value)
        return f"{{{name}}}"


def values_for(engine: Engine) -> Values:
    """The safest way that the engine takes."""
    if engine.templates:
        return Templates()
    return Literals(quote=quote_for_lite if engine.lite else quote_for_server)


def quote_for_server(text: str) -> str:
    """A literal of plain ASCII: everything but letters, digits and a few harmless signs as its code point."""
    return f'"{"".join(char if char in _PLAIN else _code_point(char) for char in text)}"'


def quote_for_lite(text: str) -> str:
    """A literal for Milvus Lite, which knows no code points; it ends at a quote and breaks at an end of line."""
    return f'"{"".join(_LITE_ESCAPES.get(char, char) for char in text)}"'


def _code_point(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
