"""The local cache of a model hub; nothing is fetched into it from here."""

from __future__ import annotations

from pathlib import Path

ENTRIES = ("config.json", "modules.json")
"""A folder of a model holds one of these at least."""


def is_hub_name(name: str) -> bool:
    """Whether ``name`` reads ``organisation/model``."""
    return all(name.partition("/")) and name.count("/") == 1


def cached_folder(name: str) -> Path | None:
    """The folder of the hub's model ``name`` in the local cache; ``None`` where it is not there."""
    from huggingface_hub import try_to_load_from_cache

    try:
        found = [try_to_load_from_cache(name, entry) for entry in ENTRIES]
    except ValueError:
        return None
    return next((Path(path).parent for path in found if isinstance(path, str)), None)
