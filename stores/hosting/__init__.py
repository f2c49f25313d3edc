"""One process of ours for an engine that admits a single process, shared by every process that needs it."""

from __future__ import annotations

from stores.hosting.host import Hosted, attach_or_own

__all__ = ["Hosted", "attach_or_own"]
