"""Kills at named points and at random, with uploads, a reader and an audit around them."""

from __future__ import annotations

import pytest

from benchmarks.crash import measure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_five_kills_lose_double_and_half_publish_nothing() -> None:
    report = await measure(seed=7, quick=True)

    assert report.holds, report.render()
