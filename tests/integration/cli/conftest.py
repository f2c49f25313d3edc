"""A real `anchorage up` in a data folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

START_SECONDS = 90.0
SETTINGS = {
    "ANCHORAGE_EMBEDDING__MODEL": "hash-384",
    "ANCHORAGE_RERANK__ENABLED": "false",
    "ANCHORAGE_GENERATION__MANAGED": "false",
    "ANCHORAGE_HTTP__PORT": "0",
}


class Home:
    """A data folder, and the command line on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANCHORAGE_")}
        self.environment = {**inherited, **SETTINGS, "ANCHORAGE_DATA_DIR": str(self.data)}
        self.supervisors = list[subprocess.Popen[str]]()

    def run(self, *arguments: str, seconds: float = 120, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rag.cli", *arguments],
            env={**self.environment, **settings},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    @staticmethod
    def until(condition: Callable[[], Any], *, seconds: float = START_SECONDS) -> Any:
        """Poll a condition until it holds."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
            time.sleep(0.05)
        return found

    @staticmethod
    def command_of(process: psutil.Process) -> str:
        """The command line of a process; empty when it has just ended."""
        try:
            return " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            return ""

    @staticmethod
    def alive(pid: int) -> bool:
        """Whether a process runs."""
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def up(self) -> subprocess.Popen[str]:
        """Start a supervisor in the foreground and wait until it has API and worker ready."""
        log = self.folder / f"up-{len(self.supervisors)}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "rag.cli", "up"], env=self.environment, stdout=output, stderr=output, text=True
            )
        self.supervisors.append(process)
        self.until(lambda: process.poll() is not None or "worker   ready" in log.read_text())
        assert process.poll() is None, log.read_text()
        return process

    @property
    def owner(self) -> dict[str, Any]:
        return dict(json.loads((self.data / "run" / "up.lock").read_text()))

    @property
    def url(self) -> str:
        return str(self.owner["url"])

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def processes(self) -> dict[str, psutil.Process]:
        """The children of the supervisor by name: serve, worker, postgres, guardian."""
        found = dict[str, psutil.Process]()
        for child in psutil.Process(self.owner["pid"]).children():
            command = self.command_of(child)
            for name in ("serve", "worker", "postgres", "guardian"):
                if command.endswith(f"rag.cli {name}") or f"supervision.{name}" in command or f"bin/{name}" in command:
                    found[name] = child
        return found

    def tree(self) -> list[int]:
        """Every process that belongs to the supervisor, and itself."""
        supervisor = psutil.Process(self.owner["pid"])
        return [supervisor.pid, *(child.pid for child in supervisor.children(recursive=True))]

    def tidy(self) -> None:
        if (self.data / "run" / "up.lock").exists():
            self.run("up", "--stop")
        for process in self.supervisors:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(30)
        shutil.rmtree(self.folder)


def make_home() -> Iterator[Home]:
    home = Home(Path(tempfile.mkdtemp(prefix="anchorage-cli-")))
    try:
        yield home
    finally:
        home.tidy()


@pytest.fixture
def home() -> Iterator[Home]:
    """A data folder on which nothing runs yet."""
    yield from make_home()


@pytest.fixture(scope="session")
def service() -> Iterator[Home]:
    """A data folder on which a service runs in the background."""
    for home in make_home():
        started = home.run("up", "--detach")
        assert started.returncode == 0, started.stderr
        yield home
