"""What happens around every request: its id, its metrics, its log line, and the last resort for errors."""

from __future__ import annotations

import logging
import re
import time
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag.api.problems import INTERNAL, Problem
from rag.telemetry import HTTP_REQUEST_SECONDS, HTTP_REQUESTS

_logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_SLASH_IN_NAME = Problem(
    status=422, code="invalid_request", title="The request is not valid", detail="a name cannot hold a slash"
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics"})


class RequestMiddleware:
    """Gives each request an id, counts and times it under its route's template, logs it without its content.

    Plain ASGI, so that streams pass unbuffered and a disconnect reaches the route.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; everything but HTTP passes through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send)
        try:
            await self._serve(exchange, scope, receive)
        finally:
            exchange.record()

    async def _serve(self, exchange: _Exchange, scope: Scope, receive: Receive) -> None:
        if b"%2f" in scope.get("raw_path", b"").lower():
            await _SLASH_IN_NAME.response(exchange.request_id)(scope, receive, exchange.send)
            return
        try:
            await self._app(scope, receive, exchange.send)
        except Exception:
            _logger.exception("request failed", extra={"action": "request_failed", "request_id": exchange.request_id})
            if exchange.status:
                raise
            await INTERNAL.response(exchange.request_id)(scope, receive, exchange.send)


class _Exchange:
    """One request and its response as the metrics and the log see them."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.request_id = _request_id(scope)
        self.status = 0
        self._header = (b"x-request-id", self.request_id.encode())
        self._scope = scope
        self._send = send
        self._began = time.perf_counter()
        scope.setdefault("state", {})["request_id"] = self.request_id

    async def send(self, message: Message) -> None:
        """Pass a message on, with the request's id among the headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), self._header]}
        await self._send(message)

    def record(self) -> None:
        """Count the request and log it: route template, status and time only."""
        seconds = time.perf_counter() - self._began
        route = getattr(self._scope.get("route"), "path", None) or "unmatched"
        method = self._scope["method"] if self._scope["method"] in _METHODS else "other"
        HTTP_REQUESTS.labels(route, method, str(self.status or 499)).inc()
        HTTP_REQUEST_SECONDS.labels(route).observe(seconds)
        level = logging.DEBUG if route in _QUIET_ROUTES else logging.INFO
        if _logger.isEnabledFor(level):
            fields = {"route": route, "method": method, "status": self.status, "seconds": round(seconds, 4)}
            _logger.log(level, "request", extra={"action": "request", "request_id": self.request_id, **fields})


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return str(given.decode()) if _REQUEST_ID.fullmatch(given) else uuid4().hex
