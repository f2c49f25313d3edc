"""Has Milvus Lite search without going through all rows of the collection in Python each time.

Which rows of a segment still count the engine finds out row by row, for each search anew: of 100,000 rows half a
second. Here it is known by sets: keys that two segments share are looked for once a change of the segments; what
the unsealed rows and the deletions hide is looked up key by key, as they are few. What is found stays the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from milvus_lite.analyzer.sparse import bytes_to_sparse
from milvus_lite.engine import collection as engine
from milvus_lite.engine.projection import build_projection_plan, project_record
from milvus_lite.index.brute_force import BruteForceIndex
from milvus_lite.search.filter import evaluate_mask
from milvus_lite.search.indexed_filter import evaluate_segment_filter
from numpy.typing import NDArray

from stores.milvus.lite_postings import Postings

Mask: TypeAlias = NDArray[np.bool_]
Row: TypeAlias = dict[str, Any]
Project: TypeAlias = Callable[[Row], Row]

_REMEMBERED = 16
_current: OrderedDict[tuple[int, ...], tuple[Sequence[Any], list[Mask]]] = OrderedDict()
"""By the identities of segments, which are kept so that these stay theirs: the rows that no other segment replaces."""
_unsealed: OrderedDict[int, tuple[Any, bytes, Postings]] = OrderedDict()
"""By the identity of the table of unsealed rows, which is kept too: the numbers of its rows, and their postings."""


def install() -> None:
    """From now on the collections of this process are searched so."""
    engine.execute_search_with_index = search_dense
    engine.Collection._search_sparse = search_sparse  # noqa: SLF001  the engine gives no other way in


def search_dense(
    *,
    query_vectors: NDArray[np.float32],
    segments: Iterable[Any],
    memtable: Any,
    delta_index: Any,
    top_k: int,
    metric_type: str,
    pk_field: str,
    vector_field: str,
    partition_names: list[str] | None,
    compiled_filter: Any,
    indexed_filter_plan: Any,
    project_record_fn: Project,
    search_params: dict[str, Any] | None,
    **rest: Any,
) -> list[list[Row]]:
    """See ``milvus_lite.search.executor_indexed.execute_search_with_index``."""
    if partition_names:
        raise NotImplementedError("the store names no partitions")
    del rest
    sealed = [each for each in segments if each.num_rows]
    keys, numbers, vectors, places, table = memtable.to_search_snapshot(
        vector_field=vector_field, include_table=compiled_filter is not None
    )
    newest = dict(zip(keys, numbers.tolist(), strict=True))
    live = Live(sealed, newest, delta_index, memtable.delete_index_snapshot())
    found = Found(len(query_vectors))
    for place, (segment, mask) in enumerate(live.sealed(compiled_filter, indexed_filter_plan)):
        rows, present = segment.vector_data(vector_field)
        mask = mask if present is None else mask & present  # noqa: PLW2901
        index = segment.indexes.get(vector_field) or BruteForceIndex.build(rows, metric_type)
        if mask.any():
            valid = None if mask.all() else mask
            found.add(place, index.search(query_vectors, top_k, valid_mask=valid, params=search_params))
    mask = live.unsealed()
    if compiled_filter is not None and keys:
        mask &= evaluate_mask(compiled_filter, table).astype(bool)
    if mask.any():
        found.add(len(sealed), BruteForceIndex.build(vectors, metric_type).search(query_vectors, top_k, mask))

    def record(place: int, row: int) -> Row:
        return dict(sealed[place].row_to_dict(row) if place < len(sealed) else memtable.materialize_row(*places[row]))

    return found.hits(top_k, record, pk_field, project_record_fn)


def search_sparse(
    self: Any,
    *,
    query_vectors: list[Any],
    vector_field: str,
    top_k: int,
    metric_type: str,
    partition_names: list[str] | None,
    expr: str | None,
    output_fields: list[str] | None,
    timezone: str | None,
) -> list[list[Row]]:
    """See ``milvus_lite.engine.collection.Collection._search_sparse``."""
    if partition_names or metric_type != "IP":
        raise NotImplementedError("the store names no partitions, and searches sparse vectors by dot product")
    condition = self._compile_filter(expr, timezone=timezone) if expr else None
    queries = self._prepare_sparse_queries(query_vectors, vector_field)
    segments, delta_index = self._read_snapshot()
    sealed = [each for each in segments if each.num_rows]
    keys, numbers, _, places, table = self._memtable.to_search_snapshot(vector_field=None, include_table=True)
    newest = dict(zip(keys, numbers.tolist(), strict=True))
    live = Live(sealed, newest, delta_index, self._memtable.delete_index_snapshot())
    found = Found(len(queries))
    for place, (segment, mask) in enumerate(live.sealed(condition, self._indexed_filter_plan(condition))):
        if mask.any():
            found.add(place, _postings(segment, vector_field).search(queries, top_k, mask))
    mask = live.unsealed()
    if condition is not None and keys:
        mask &= evaluate_mask(condition, table).astype(bool)
    if mask.any():
        postings = _unsealed_postings(self._memtable, numbers, table.column(vector_field))
        found.add(len(sealed), postings.search(queries, top_k, mask))
    projection = build_projection_plan(output_fields, self._schema, api_kind="search")

    def record(place: int, row: int) -> Row:
        if place < len(sealed):
            return dict(sealed[place].row_to_dict(row))
        return dict(self._memtable.materialize_row(*places[row]))

    return found.hits(top_k, record, self._pk_name, lambda whole: project_record(whole, self._schema, projection))


class Found:
    """What the sources found for each query, nearest first when all are in."""

    def __init__(self, queries: int) -> None:
        self._best: list[list[tuple[float, int, int]]] = [[] for _ in range(queries)]

    def add(self, place: int, found: tuple[NDArray[np.int64], NDArray[np.float32]]) -> None:
        """What the source at ``place`` found: rows and distances (queries, k); a row below 0 is none."""
        for best, rows, distances in zip(self._best, found[0].tolist(), found[1].tolist(), strict=True):
            best += [(distance, place, row) for row, distance in zip(rows, distances, strict=True) if row >= 0]

    def hits(self, top_k: int, record: Callable[[int, int], Row], pk_field: str, project: Project) -> list[list[Row]]:
        """The best of all sources, read by ``record`` (place, row) and projected."""
        return [[_hit(each, record, pk_field, project) for each in sorted(best)[:top_k]] for best in self._best]


def _hit(candidate: tuple[float, int, int], record: Callable[[int, int], Row], pk_field: str, project: Project) -> Row:
    distance, place, row = candidate
    whole = record(place, row)
    return {"id": whole[pk_field], "distance": distance, "entity": project(whole)}


@dataclass(frozen=True, slots=True)
class Live:
    """Which rows count: ``newest`` has the numbers of the unsealed rows by key, ``deleted`` those of deletions."""

    segments: Sequence[Any]
    newest: Mapping[Any, int]
    delta_index: Any
    deleted: Mapping[Any, tuple[int, Any]]

    def sealed(self, condition: Any, scalar_plan: Any) -> Iterator[tuple[Any, Mask]]:
        """Each segment with its rows that nothing newer replaces or deletes and that pass the condition."""
        hidden = dict(self.delta_index.snapshot)
        for later in (self.newest, {key: number for key, (number, _) in self.deleted.items()}):
            for key, number in later.items():
                hidden[key] = max(number, hidden.get(key, -1))
        for segment, current in zip(self.segments, _current_rows(self.segments), strict=True):
            mask = _without(segment, current, hidden)
            if condition is not None:
                mask = mask & evaluate_segment_filter(segment, condition, scalar_plan)
            yield segment, mask

    def unsealed(self) -> Mask:
        """The unsealed rows, in their order, that are not deleted."""
        alive = (
            not self.delta_index.is_deleted(key, number) and self.deleted.get(key, (-1,))[0] <= number
            for key, number in self.newest.items()
        )
        return np.fromiter(alive, dtype=bool, count=len(self.newest))


def _without(segment: Any, mask: Mask, hidden: Mapping[Any, int]) -> Mask:
    """The mask without the rows that are older than what hides their key."""
    shared = segment.pk_to_row.keys() & hidden.keys()
    if not shared:
        return mask
    rows = np.fromiter((segment.pk_to_row[key] for key in shared), dtype=np.int64, count=len(shared))
    numbers = np.fromiter((hidden[key] for key in shared), dtype=np.uint64, count=len(shared))
    left = mask.copy()
    left[rows[segment.seqs[rows] < numbers]] = False
    return left


def _current_rows(segments: Sequence[Any]) -> list[Mask]:
    identity = tuple(map(id, segments))
    known = _current.get(identity)
    if known is None:
        known = _current[identity] = (segments, _compared(segments))
        while len(_current) > _REMEMBERED:
            _current.popitem(last=False)
    return known[1]


def _compared(segments: Sequence[Any]) -> list[Mask]:
    """The rows of each segment whose key no other segment has with a higher number."""
    masks = [_last_rows(segment) for segment in segments]
    for (one, first), (other, second) in combinations(zip(segments, masks, strict=True), 2):
        for key in one.pk_to_row.keys() & other.pk_to_row.keys():
            row, rival = one.pk_to_row[key], other.pk_to_row[key]
            if one.seqs[row] < other.seqs[rival]:
                first[row] = False
            elif one.seqs[row] > other.seqs[rival]:
                second[rival] = False
    return masks


def _last_rows(segment: Any) -> Mask:
    """The last row of each key: a segment may hold one twice."""
    if len(segment.pk_to_row) == segment.num_rows:
        return np.ones(segment.num_rows, dtype=bool)
    mask = np.zeros(segment.num_rows, dtype=bool)
    last: dict[Any, int] = {}
    for row, key in enumerate(segment.pks):
        if key not in last or segment.seqs[row] > segment.seqs[last[key]]:
            last[key] = row
    mask[list(last.values())] = True
    return mask


def _postings(segment: Any, field: str) -> Postings:
    """The sparse vectors of the segment by term, made once."""
    found = segment.sparse_indexes.get(field)
    if not isinstance(found, Postings):
        stored = segment.table.column(field).to_pylist()
        found = segment.sparse_indexes[field] = Postings(map(_weights, stored))
    return found


def _unsealed_postings(memtable: Any, numbers: NDArray[np.uint64], column: Any) -> Postings:
    """The same of the unsealed rows, made once a write; the ``numbers`` of rows are never given again."""
    version = numbers.tobytes()
    known = _unsealed.get(id(memtable))
    if known is None or known[1] != version:
        known = _unsealed[id(memtable)] = (memtable, version, Postings(map(_weights, column.to_pylist())))
        while len(_unsealed) > _REMEMBERED:
            _unsealed.popitem(last=False)
    return known[2]


def _weights(stored: Any) -> dict[int, float]:
    return dict(bytes_to_sparse(stored) if isinstance(stored, bytes) else stored or {})
