"""When a breaker opens, for how long, and what a call may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRules:
    """All times in seconds.

    It opens after ``failures`` in a row; and where at least ``least_calls`` ended in the last ``window``, when the
    share of those that failed reaches ``failure_ratio`` or that of those slower than ``slow_call`` reaches
    ``slow_ratio``. So a backend with much traffic is judged by shares, one with little by its failures in a row.

    It stays open for ``recovery``, twice as long after each probe that failed, at most ``longest_recovery``, all
    of it more or less by ``jitter`` so that processes do not probe together. A probe that has not ended after
    ``probe_age`` makes room for the next. A call that its caller's deadline ends says something of the backend
    where it had ``patience``.
    """

    failures: int = 5
    call_timeout: float = 30.0
    recovery: float = 60.0
    longest_recovery: float = 300.0
    jitter: float = 0.1
    probe_age: float = 30.0
    patience: float = 0.5
    window: float = 30.0
    least_calls: int = 20
    failure_ratio: float = 0.5
    slow_call: float = 10.0
    slow_ratio: float = 0.8
