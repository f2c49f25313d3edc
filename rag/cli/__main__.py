"""``python -m rag.cli``: the same as the command ``anchorage``."""

from __future__ import annotations

from rag.cli import main

if __name__ == "__main__":
    main()
