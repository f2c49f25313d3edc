"""Parsers that misbehave, each in its own way; run in the child processes of the tests."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rag.core.errors import ParseError
from rag.core.types import Block, ParsedDocument

MEDIA = {
    name: f"tests.unit.ingest.parsing.rogues:{name}"
    for name in (
        "Polite", "Sleeper", "Spinner", "Deaf", "Allocator", "Forker", "Crasher", "Chatter", "Liar", "Refuser",
        "Thrower", "Writer", "Silent", "Teller",
    )
}  # fmt: skip


class Polite:
    name = "polite"
    media_types = frozenset({"Polite"})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        text = content.decode()
        return ParsedDocument(text=text, blocks=(Block(start=0, end=len(text)),) if text else (), title=source)


class Sleeper(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        Path(content.decode()).write_text(f"{os.getpid()}\n{os.environ['TMPDIR']}")
        time.sleep(3600)
        raise AssertionError


class Spinner(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        Path(content.decode()).write_text(f"{os.getpid()}\n{os.environ['TMPDIR']}")
        while True:
            pass


class Deaf(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return Sleeper().parse(content, source=source, media_type=media_type)


class Allocator(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        kept = []
        while True:
            kept.append(bytearray(16 * 2**20))


class Forker(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        script = "import time; time.sleep(3600)"
        grandchild = subprocess.Popen([sys.executable, "-c", script], stdout=None)
        Path(content.decode()).write_text(f"{os.getpid()} {grandchild.pid}\n{os.environ['TMPDIR']}")
        time.sleep(3600)
        raise AssertionError


class Crasher(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        ctypes.string_at(0)
        raise AssertionError


class Chatter(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        sys.stdout.write("noise on the output")
        sys.stdout.flush()
        os.write(1, b"\x00" * 100)
        text = "x" * int(content)
        return ParsedDocument(text=text, blocks=(Block(start=0, end=len(text)),))


class Liar(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        return ParsedDocument(text="short", blocks=(Block(start=0, end=5000),))


class Refuser(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        raise ParseError("it is locked", code="encrypted")


class Thrower(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        raise ZeroDivisionError("secret text of the document")


class Writer(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(content)
        text = str(os.environ["TMPDIR"])
        return ParsedDocument(text=text, blocks=(Block(start=0, end=len(text)),))


class Silent(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        return ParsedDocument(text="", blocks=())


class Teller(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        text = "\n".join(sorted(os.environ)) + f"\n{Path.cwd()}"
        return ParsedDocument(text=text, blocks=(Block(start=0, end=len(text)),))
