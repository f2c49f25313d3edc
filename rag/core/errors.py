"""Every error that leaves a part, each with a stable ``code``.

AnchorageError
├─ ConfigurationError          refuse to start, exit code 2
│  ├─ UnknownStoreError · StoreChangedError
│  ├─ MissingExtraError
│  ├─ DataFolderError
│  ├─ DataFolderLockedError
│  └─ PortTakenError
├─ RequestError                the caller's fault, 4xx
│  ├─ InvalidRequestError 422
│  ├─ CollectionNotFoundError 404 · DocumentNotFoundError 404
│  ├─ CollectionExistsError 409 · ModelMismatchError 409 · ConflictError 409
│  ├─ DimensionMismatchError 422 · FilterError 422
│  ├─ UnsupportedMediaTypeError 415 · TooLargeError 413
│  └─ OverloadedError 429 (retry_after) · BacklogFullError 429
├─ UpstreamError               a dependency's fault, 503, retryable
│  ├─ StoreError · CollectionLostError · CatalogError · BlobError · EmbeddingError · RerankError · GenerationError
│  ├─ StorageFullError 507
│  ├─ CapacityError 503 (retry_after) · DegradedError 503
│  └─ DeadlineExceededError 504
└─ IngestError                 ends an attempt; the code is kept on the document
   ├─ ParseError
   └─ SupersededError          another attempt owns the document: stop without a trace
"""

from __future__ import annotations

from typing import ClassVar


class AnchorageError(Exception):
    """Something went wrong in Anchorage."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        self.message = message or (self.__doc__ or "").strip().splitlines()[0]
        self.retry_after = retry_after
        super().__init__(self.message)


class ConfigurationError(AnchorageError):
    """The configuration cannot be used."""

    code = "configuration"


class UnknownStoreError(ConfigurationError):
    """No installed store has this kind."""

    code = "unknown_store"


class StoreChangedError(ConfigurationError):
    """The collections are indexed in another store than the configured one."""

    code = "store_changed"


class MissingExtraError(ConfigurationError, ImportError):
    """An optional package is not installed."""

    code = "missing_extra"


class DataFolderError(ConfigurationError):
    """The data folder cannot be written."""

    code = "data_folder_unwritable"


class DataFolderLockedError(ConfigurationError):
    """Another service already runs on this data folder."""

    code = "data_folder_locked"


class PortTakenError(ConfigurationError):
    """The port is already taken."""

    code = "port_taken"


class RequestError(AnchorageError):
    """The request cannot be served as it is."""

    code = "bad_request"
    status = 422


class InvalidRequestError(RequestError):
    """The request is not valid."""

    code = "invalid_request"


class CollectionNotFoundError(RequestError):
    """No such collection."""

    code = "collection_not_found"
    status = 404


class DocumentNotFoundError(RequestError):
    """No such document."""

    code = "document_not_found"
    status = 404


class CollectionExistsError(RequestError):
    """A collection of this name already exists with other settings."""

    code = "collection_exists"
    status = 409


class ModelMismatchError(RequestError):
    """The collection was made with another embedding model than the service is configured with."""

    code = "model_mismatch"
    status = 409


class ConflictError(RequestError):
    """The request conflicts with the current state."""

    code = "conflict"
    status = 409


class DimensionMismatchError(RequestError):
    """The vector has the wrong dimension."""

    code = "dimension_mismatch"


class FilterError(RequestError):
    """The filter cannot be used."""

    code = "invalid_filter"


class UnsupportedMediaTypeError(RequestError):
    """Documents of this type are not supported."""

    code = "unsupported_media_type"
    status = 415


class TooLargeError(RequestError):
    """The upload is larger than the limit."""

    code = "too_large"
    status = 413


class OverloadedError(RequestError):
    """Too many requests are waiting."""

    code = "overloaded"
    status = 429
    retryable = True


class BacklogFullError(OverloadedError):
    """Too many documents are waiting to be ingested."""

    code = "backlog_full"


class UpstreamError(AnchorageError):
    """Something that the service depends on failed."""

    code = "upstream"
    status = 503
    retryable = True


class StoreError(UpstreamError):
    """The vector store failed."""

    code = "store_unavailable"


class CollectionLostError(StoreError):
    """The vector store does not have a collection that the catalog has."""

    code = "collection_lost"


class CatalogError(UpstreamError):
    """The catalog's database failed."""

    code = "catalog_unavailable"


class BlobError(UpstreamError):
    """The blob folder failed."""

    code = "blob_unavailable"


class EmbeddingError(UpstreamError):
    """The embedding model failed."""

    code = "embedding_unavailable"


class RerankError(UpstreamError):
    """The reranker failed."""

    code = "rerank_unavailable"


class GenerationError(UpstreamError):
    """The generator failed."""

    code = "generation_unavailable"


class StorageFullError(UpstreamError):
    """The disk is full."""

    code = "storage_full"
    status = 507


class CapacityError(UpstreamError):
    """The service cannot take more work right now."""

    code = "capacity"


class DegradedError(UpstreamError):
    """A stage failed and the request asked for a strict answer."""

    code = "degraded"


class DeadlineExceededError(UpstreamError):
    """The request's deadline passed."""

    code = "deadline_exceeded"
    status = 504


class IngestError(AnchorageError):
    """The document could not be ingested."""

    code = "ingest_failed"

    def __init__(self, message: str | None = None, *, code: str | None = None) -> None:
        super().__init__(message)
        self.reason = code or type(self).code


class ParseError(IngestError):
    """The document could not be parsed; ``reason`` is the stable code kept on the document."""

    code = "parse_failed"


class SupersededError(IngestError):
    """Another attempt owns the document now."""

    code = "superseded"
