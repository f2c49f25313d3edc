"""Parsers that misbehave, each in its own way; run in the child processes of the tests."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from rag.core.errors import ParseError
from rag.core.types import Block, ParsedDocument

MEDIA = {
    name: f"tests.unit.ingest.parsing.rogues:{name}"
    for name in (
        "Polite", "Sleeper", "Spinner", "Deaf", "Allocator", "Forker", "Crasher", "Chatter", "Liar", "Refuser",
        "Thrower", "Writer", "Silent", "Teller", "Runaway", "Family", "Hoarder", "Late", "Brief", "Caller",
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


class Runaway(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        script = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(3600)"
        before = set(psutil.Process().children())
        subprocess.run([sys.executable, "-c", script], check=True)
        adopted = [process.pid for process in set(psutil.Process().children()) - before]
        Path(content.decode()).write_text(f"{os.getpid()} {' '.join(map(str, adopted))}\n{os.environ['TMPDIR']}")
        time.sleep(3600)
        raise AssertionError


class Family(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        script = "import time; kept = b'x' * (200 * 2**20); time.sleep(3600)"
        for _ in range(3):
            subprocess.Popen([sys.executable, "-c", script])
        time.sleep(3600)
        raise AssertionError


class Hoarder(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        for number in range(20_000):
            Path(f"file{number}").touch()
        time.sleep(3600)
        raise AssertionError


class Late(Polite):
    """Gives its document after as many seconds as the content says."""

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        time.sleep(float(content))
        return Polite().parse(b"whole text", source=source, media_type=media_type)


class Brief(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        return replace(Polite().parse(b"summary", source=source, media_type=media_type), structure={"pages": 3})


class Caller(Polite):
    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:
        with socket.socket() as connection:
            connection.settimeout(5.0)
            connection.connect(("127.0.0.1", int(content)))
        return Polite().parse(b"connected", source=source, media_type=media_type)
