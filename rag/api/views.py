"""What clients get: values of the core as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.core.answers import Answer, Citation, DocumentLabel, SearchResult, Skip
from rag.core.catalog import CollectionView, DocumentView, JobView, PromotionView, Receipt
from rag.core.filters import dump_metadata
from rag.core.records import Hit, Record

_UNLABELLED = DocumentLabel(source="", title=None, media_type="")


def collection_json(collection: CollectionView) -> dict[str, Any]:
    """A collection."""
    return {
        "name": collection.name,
        "embedding_model": collection.embedding_model,
        "dimension": collection.spec.dimension,
        "metric": collection.spec.metric,
        "quantization": collection.spec.quantization,
        "fields": collection.spec.filterable,
        "documents": collection.documents,
        "chunks": collection.statistics.chunks,
        "epoch": collection.epoch,
        "created_at": collection.created_at,
    }


def document_json(document: DocumentView) -> dict[str, Any]:
    """A document with its state; ``terminal`` says whether to wait for more."""
    return {
        "id": document.id,
        "collection": document.collection,
        "source": document.source,
        "title": document.title,
        "media_type": document.media_type,
        "bytes": document.blob.size,
        "sha256": document.blob.sha256,
        "metadata": dump_metadata(document.metadata),
        "state": document.state,
        "stage": document.stage,
        "terminal": document.state.terminal,
        "quality": document.quality,
        "attempt": document.attempt,
        "error": _error_json(document),
        "chunks": document.chunks,
        "characters": document.characters,
        "encoding": document.encoding,
        "structure": document.structure,
        "promotion": _promotion_json(document.promotion),
        "attempts": [dict(attempt) for attempt in document.attempts],
        "created_at": document.created_at,
        "updated_at": document.updated_at,
        "published_at": document.published_at,
    }


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """An accepted document."""
    return {**document_json(receipt.document), "unchanged": receipt.unchanged}


def _error_json(document: DocumentView) -> dict[str, Any] | None:
    if document.error_code is None:
        return None
    return {"code": document.error_code, "message": document.error_message}


def _promotion_json(promotion: PromotionView | None) -> dict[str, Any] | None:
    if promotion is None:
        return None
    return {"attempts": promotion.attempts, "running": promotion.running, "next_at": promotion.next_at}


def chunk_json(record: Record) -> dict[str, Any]:
    """A chunk of a document; ``start`` and ``end`` are code points into its text."""
    return {
        "index": record.index,
        "id": record.id,
        "text": record.text,
        "start": record.start,
        "end": record.end,
        "page": record.page,
        "headings": list(record.headings),
        "quality": record.quality,
    }


def search_json(result: SearchResult, *, request_id: str) -> dict[str, Any]:
    """A search's result."""
    return {
        "hits": [_hit_json(hit, result.documents.get(hit.document, _UNLABELLED)) for hit in result.hits],
        "degraded": list(result.degraded),
        "skipped": _skipped_json(result.skipped),
        "shortfall": result.shortfall,
        "timings": _timings_json(result.timings),
        "request_id": request_id,
    }


def _hit_json(hit: Hit, label: DocumentLabel) -> dict[str, Any]:
    return {
        "id": hit.id,
        "document": hit.document,
        "source": label.source,
        "title": label.title,
        "score": hit.score,
        "retrieval_score": hit.retrieval_score,
        "rerank_score": hit.rerank_score,
        "text": hit.text,
        "start": hit.start,
        "end": hit.end,
        "page": hit.page,
        "headings": list(hit.headings),
        "quality": hit.quality,
        "metadata": dump_metadata(hit.metadata),
    }


def answer_json(answer: Answer, *, request_id: str) -> dict[str, Any]:
    """An answer with its evidence."""
    return {
        "text": answer.text,
        "citations": [citation_json(citation) for citation in answer.citations],
        "hits": search_json(answer.search, request_id=request_id)["hits"],
        "degraded": list(answer.degraded),
        "skipped": _skipped_json(answer.skipped),
        "shortfall": answer.search.shortfall,
        "timings": _timings_json(answer.timings),
        "usage": {
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
            "total_tokens": answer.usage.total_tokens,
        },
        "invalid_markers": answer.invalid_markers,
        "finish_reason": answer.finish_reason,
        "request_id": request_id,
    }


def citation_json(citation: Citation) -> dict[str, Any]:
    """A citation; ``quote`` is the document's text at [start, end)."""
    return {
        "marker": citation.marker,
        "document": citation.document,
        "source": citation.source,
        "title": citation.title,
        "page": citation.page,
        "start": citation.start,
        "end": citation.end,
        "quote": citation.quote,
        "quality": citation.quality,
        "origin": citation.origin,
    }


def job_json(job: JobView) -> dict[str, Any]:
    """A job of the queue."""
    return {
        "id": job.id,
        "task": job.task,
        "status": job.status,
        "document": job.document,
        "attempts": job.attempts,
        "scheduled_at": job.scheduled_at,
        "started_at": job.started_at,
        "stuck": job.stuck,
    }


def _skipped_json(skipped: tuple[Skip, ...]) -> list[dict[str, str]]:
    return [{"stage": skip.stage, "reason": skip.reason} for skip in skipped]


def _timings_json(timings: Mapping[str, float]) -> dict[str, float]:
    return {stage: round(seconds, 6) for stage, seconds in timings.items()}
