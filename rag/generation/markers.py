"""The streaming marker filter: a pure state machine between the model's text and the reader's."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_OPENING = "[【"
_CLOSING = "]】"
_SEPARATORS = " ,，、;；"
_MAX_HELD = 32
_LOOP_CHARACTERS = 40
_LOOP_TIMES = 3
_NUMBER = re.compile(r"\d{1,3}")
_MARKER = re.compile(r" *\d{1,3}(?: *[,，、;；] *\d{1,3})* *")
_ENCLOSED = re.compile(rf"[{re.escape(_OPENING)}]({_MARKER.pattern})[{re.escape(_CLOSING)}]")


def without_markers(text: str) -> str:
    """The text of a source with its own bracketed numbers in parentheses, so that none is taken for a marker."""
    return _ENCLOSED.sub(r"(\1)", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that may be shown. ``markers`` are those it ends with; before a marker the text is cut."""

    text: str
    markers: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class MarkerFilter:
    """Turns deltas into pieces in which every marker is ``[n]`` and names one of ``valid``.

    ``[n]``, ``【n】`` and lists such as ``[1, 2]`` are understood. Text that may become a marker is held back
    until it closes or cannot be one, white space until something follows. A marker that names nothing valid
    is removed with the white space before it and counted in ``invalid``. With ``one_paragraph`` the text ends
    (``ended``) at its first blank line and where it runs in circles, as small models do. The joined texts
    depend on the joined deltas only, and begin and end without white space.
    """

    valid: Collection[int]
    one_paragraph: bool = False
    invalid: int = 0
    ended: bool = False
    _gap: str = ""
    _held: str = ""
    _said: str = ""
    _out: list[str] = field(default_factory=list)

    def feed(self, delta: str) -> list[Piece]:
        """Take the next delta; give what can be shown by now."""
        pieces: list[Piece] = []
        for character in delta:
            if not self.ended:
                self._take(character, pieces)
        self._cut(pieces)
        return pieces

    def finish(self) -> list[Piece]:
        """The end of the text: what was held back was no marker."""
        pieces: list[Piece] = []
        self._release()
        self._cut(pieces)
        self._gap = ""
        return pieces

    def _take(self, character: str, pieces: list[Piece]) -> None:
        if self._held:
            if character in _CLOSING:
                self._close(character, pieces)
                return
            if (character.isdecimal() or character in _SEPARATORS) and len(self._held) < _MAX_HELD:
                self._held += character
                return
            self._release()
        if character in _OPENING:
            self._held = character
        elif character.isspace():
            self._gap += character
            self.ended = self.one_paragraph and bool(self._said) and (self._gap.count("\n") > 1 or self._circles())
        else:
            self._show(character)

    def _close(self, character: str, pieces: list[Piece]) -> None:
        body, self._held = self._held[1:], self._held
        if _MARKER.fullmatch(body) is None:
            self._held += character
            self._release()
            return
        numbers = [int(number) for number in _NUMBER.findall(body)]
        known = tuple(number for number in numbers if number in self.valid)
        self.invalid += len(numbers) - len(known)
        self._held = ""
        if not known:
            self._gap = ""
            return
        self._show("".join(f"[{number}]" for number in known))
        self._cut(pieces, known)

    def _release(self) -> None:
        if self._held:
            held, self._held = self._held, ""
            self._show(held)

    def _show(self, text: str) -> None:
        shown = self._gap + text if self._said else text
        self._out.append(shown)
        self._said += shown
        self._gap = ""

    def _circles(self) -> bool:
        tail = self._said[-_LOOP_CHARACTERS:]
        return len(tail) == _LOOP_CHARACTERS and self._said.count(tail) >= _LOOP_TIMES

    def _cut(self, pieces: list[Piece], markers: tuple[int, ...] = ()) -> None:
        if self._out:
            pieces.append(Piece(text="".join(self._out), markers=markers))
            self._out.clear()
