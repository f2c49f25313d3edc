"""What a request must look like before anything is asked for it."""

from __future__ import annotations

from rag.core.errors import InvalidRequestError
from rag.query.types import AnswerRequest, QueryOptions, SearchRequest

MAX_TURNS = 64
MAX_HISTORY_CHARACTERS = 65_536
MAX_TEMPERATURE = 2.0


def check_search(request: SearchRequest, options: QueryOptions) -> str:
    """The query without surrounding white space. Raises ``InvalidRequestError`` naming the fault."""
    query = request.query.strip()
    if not query:
        raise InvalidRequestError("the query is empty")
    if len(query) > options.max_query_characters:
        raise InvalidRequestError(
            f"the query has {len(query)} characters; at most {options.max_query_characters} are allowed"
        )
    _check_text("the query", query)
    if not 1 <= request.limit <= options.max_limit:
        raise InvalidRequestError(f"limit is between 1 and {options.max_limit}")
    return query


def check_answer(request: AnswerRequest) -> None:
    """Check what an answer takes beyond its search. Raises ``InvalidRequestError``."""
    if request.max_tokens is not None and request.max_tokens < 1:
        raise InvalidRequestError("max_tokens is at least 1")
    if request.temperature is not None and not 0 <= request.temperature <= MAX_TEMPERATURE:
        raise InvalidRequestError(f"temperature is between 0 and {MAX_TEMPERATURE:g}")
    size = sum(len(turn.content) for turn in request.history)
    if len(request.history) > MAX_TURNS or size > MAX_HISTORY_CHARACTERS:
        raise InvalidRequestError(f"history is at most {MAX_TURNS} turns and {MAX_HISTORY_CHARACTERS} characters")
    for turn in request.history:
        _check_text("history", turn.content)


def _check_text(name: str, text: str) -> None:
    if "\0" in text:
        raise InvalidRequestError(f"{name} contains a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequestError(f"{name} is not valid Unicode")
