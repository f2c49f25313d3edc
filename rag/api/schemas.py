"""What clients send, as JSON; an unknown member is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from rag.core.answers import Message
from rag.core.records import Metric, Quantization
from rag.core.types import FieldType, Mode

MAX_HISTORY = 50


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL character is not text")
    return text


Text = Annotated[str, AfterValidator(_without_nul)]
FieldName = Annotated[Text, Field(min_length=1, max_length=128)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IndexBody(_Body):
    """HNSW build parameters."""

    m: int = Field(16, ge=2, le=100)
    ef_construction: int = Field(100, ge=4, le=1000)


class CollectionBody(_Body):
    """A collection to create; ``embedding_model`` defaults to the configured one."""

    name: str
    embedding_model: str | None = None
    metric: Metric = Metric.COSINE
    fields: dict[FieldName, FieldType] = Field(default_factory=dict, max_length=64)
    index: IndexBody = IndexBody()
    quantization: Quantization = Quantization.NONE


class TextDocumentBody(_Body):
    """A document whose text is in the request."""

    text: Text = Field(min_length=1)
    source: str
    title: Text | None = Field(None, max_length=1024)
    media_type: str = "text/plain"
    metadata: dict[str, Any] = Field(default_factory=dict)


class MetadataBody(_Body):
    """Metadata that replaces a document's."""

    metadata: dict[str, Any]


class SearchBody(_Body):
    """A search; members that are left out take the service's defaults."""

    query: Text
    limit: int | None = Field(None, ge=1, strict=True)
    mode: Mode | None = None
    filter: dict[str, Any] | None = None
    rerank: StrictBool = True
    strict: StrictBool = False


class MessageBody(_Body):
    """An earlier turn of the conversation."""

    role: Literal["user", "assistant"]
    content: Text

    def message(self) -> Message:
        """The turn as the query path takes it."""
        return Message(role=self.role, content=self.content)


class AnswerBody(SearchBody):
    """A question; ``stream`` asks for server-sent events."""

    stream: StrictBool = False
    max_tokens: int | None = Field(None, ge=1, le=8192, strict=True)
    temperature: float | None = Field(None, ge=0, le=2)
    history: list[MessageBody] = Field(default_factory=list, max_length=MAX_HISTORY)
