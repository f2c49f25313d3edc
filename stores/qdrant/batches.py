"""How many points go in one request."""

from __future__ import annotations

from collections.abc import Iterator

from stores.qdrant.engine import Points

MAX_REQUEST_BYTES = 16 << 20
"""Half of what a server takes by default."""
MAX_REQUEST_ROWS = 512


def requests_of(points: Points) -> Iterator[Points]:
    """Parts of at most ``MAX_REQUEST_ROWS`` and about ``MAX_REQUEST_BYTES``, and of one row at least."""
    first = size = 0
    for row in range(len(points)):
        added = _row_bytes(points, row)
        if row > first and (size + added > MAX_REQUEST_BYTES or row - first == MAX_REQUEST_ROWS):
            yield points.part(first, row)
            first, size = row, 0
        size += added
    yield points.part(first, len(points))


def _row_bytes(points: Points, row: int) -> int:
    """An upper bound: a character takes up to four bytes, a dimension or a weight up to some dozen as JSON."""
    texts = sum(4 * len(value) for value in points.payloads[row].values() if isinstance(value, str))
    return texts + 12 * int(points.vectors.shape[1]) + 24 * len(points.terms[row]) + 1024
