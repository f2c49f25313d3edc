"""Retrieval collections in BEIR form: corpus.jsonl, queries.jsonl, qrels.tsv."""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSet:
    """Documents, queries that have judgements, and the judgements (query id → document id → grade)."""

    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    judgements: Mapping[str, Mapping[str, int]]

    def sample(self, count: int, *, seed: int) -> RetrievalSet:
        """The same documents with at most ``count`` of the queries."""
        if len(self.queries) <= count:
            return self
        chosen = random.Random(seed).sample(sorted(self.queries), count)
        return replace(self, queries={each: self.queries[each] for each in chosen})


def shared_folder() -> Path:
    """The folder of shared data, named by ``ANCHORAGE_SHARED``. Raises ``ConfigurationError`` without it."""
    folder = Path(os.environ.get("ANCHORAGE_SHARED", "../shared"))
    if not (folder / "data").is_dir():
        raise ConfigurationError(f"this benchmark needs the shared data; {folder} holds none (set ANCHORAGE_SHARED)")
    return folder


def load_retrieval_set(name: str) -> RetrievalSet:
    """Read one set; a document is its title and its text, as a file of both would be."""
    folder = shared_folder() / "data" / "retrieval" / name
    documents = {
        row["_id"]: "\n\n".join(filter(None, (row.get("title"), row["text"]))) for row in _rows(folder / "corpus.jsonl")
    }
    queries = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    judgements = _judgements(folder / "qrels.tsv")
    judged = {query: text for query, text in queries.items() if query in judgements}
    return RetrievalSet(name=name, documents=documents, queries=judged, judgements=judgements)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return judgements
