"""Exit codes, and how an error becomes one."""

from __future__ import annotations

from enum import IntEnum

from rag.core.errors import AnchorageError, ConfigurationError


class ExitCode(IntEnum):
    """What the process ends with."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTLY_FAILED = 3
    INTERRUPTED = 130


class ServiceUnreachableError(AnchorageError):
    """No service answers."""

    code = "no_service"


class RefusedError(AnchorageError):
    """The service refused; ``refusal`` is its stable code and ``http_status`` what it answered with."""

    def __init__(self, message: str, *, refusal: str, http_status: int, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.refusal = refusal
        self.http_status = http_status


def code_of(error: AnchorageError) -> str:
    """Return the stable code of ``error``: the service's own where it is one that the service answered with."""
    return error.refusal if isinstance(error, RefusedError) else error.code


def exit_code(error: AnchorageError) -> ExitCode:
    """Configuration that cannot be used is 2, every other failure 1."""
    return ExitCode.USAGE if isinstance(error, ConfigurationError) else ExitCode.FAILED


def outcome(*, succeeded: int, failed: int) -> ExitCode:
    """Return the exit code of a batch: 0 when nothing failed, 1 when nothing else happened, else 3."""
    if not failed:
        return ExitCode.OK
    return ExitCode.PARTLY_FAILED if succeeded else ExitCode.FAILED
