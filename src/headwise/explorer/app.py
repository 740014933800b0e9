"""The web application: the page, and what the page asks for."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from headwise.engine.resuming import StoppedError
from headwise.errors import HeadwiseError
from headwise.explorer.guard import Guard
from headwise.explorer.page import policy, render
from headwise.explorer.sample import LanguageMetric
from headwise.explorer.session import Session
from headwise.explorer.turns import Turns

#: Maximum number of bytes of the body of a request.
MOST_BYTES = 256 * 1024


class Measure(msgspec.Struct, forbid_unknown_fields=True):
    """Asks for the metric with some heads off."""

    off: list[str]


class Attend(msgspec.Struct, forbid_unknown_fields=True):
    """Asks for the attention of a head on a sentence."""

    sentence: str
    head: str
    off: list[str]
    target: str = ""


class Save(msgspec.Struct, forbid_unknown_fields=True):
    """Asks to save a mask under a name."""

    off: list[str]
    name: str


class Export(msgspec.Struct, forbid_unknown_fields=True):
    """Asks to export the pruned model."""

    off: list[str]


Body = TypeVar("Body", Measure, Attend, Save, Export)


def make_app(session: Session, token: str, hosts: Collection[str] | None, turns: Turns | None = None) -> Guard:
    """The application.

    Args:
        session: What it can do.
        token: The secret in the address of the page.
        hosts: Values of the Host header that are accepted; None for any host.
        turns: Decides which request runs.
    """
    answers = _Answers(session, turns or Turns())
    routes = [
        Route("/", answers.page, methods=["GET"]),
        Route("/measure", answers.measure, methods=["POST"]),
        Route("/attention", answers.attention, methods=["POST"]),
        Route("/save", answers.save, methods=["POST"]),
        Route("/export", answers.export, methods=["POST"]),
    ]
    handlers: dict[Any, Callable[..., Any]] = {
        HTTPException: _http_error,
        HeadwiseError: _user_error,
        StoppedError: _stopped,
        Exception: _internal_error,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token, hosts, policy())


class _Answers:
    """The answers to requests."""

    def __init__(self, session: Session, turns: Turns) -> None:
        self.session, self.turns = session, turns

    async def page(self, _request: Request) -> Response:
        return HTMLResponse(render(self.session))

    async def measure(self, request: Request) -> Response:
        body = await _read(request, Measure)
        found = await self.turns.run("measure", lambda stopped: self.session.measure(body.off, stopped))
        return JSONResponse(
            {
                "off": len(found.mask.off),
                "languages": _rows(found.languages),
                "units": found.cost.units,
                "plain": found.plain,
                "seconds": found.cost.seconds,
            }
        )

    async def attention(self, request: Request) -> Response:
        body = await _read(request, Attend)
        view = await self.turns.run(
            "attention", lambda _: self.session.attention(body.sentence, body.head, body.off, body.target)
        )
        rows = [row for row in (view.sentences[0].source, view.sentences[0].target) if row is not None]
        return JSONResponse({"page": view.page(), "tokens": max(map(len, rows))})

    async def save(self, request: Request) -> Response:
        body = await _read(request, Save)
        path = self.session.save(body.off, body.name)
        return JSONResponse({"path": str(path), "off": len(set(body.off)), "commands": self.session.commands(path)})

    async def export(self, request: Request) -> Response:
        body = await _read(request, Export)
        found = await self.turns.run("export", lambda _: self.session.export(body.off))
        before, after = found.exported.parameters
        return JSONResponse(
            {
                "folder": str(found.exported.folder),
                "off": len(found.exported.mask.off),
                "before": before,
                "after": after,
                "languages": _rows(found.languages),
            }
        )


async def _read(request: Request, kind: type[Body]) -> Body:
    """The body of a request.

    Raises:
        HTTPException: It is too large, not JSON, or has other fields.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be JSON: send it with the content type application/json")
    content = bytearray()
    too_large = HTTPException(413, f"the body is too large: at most {MOST_BYTES:,} bytes are accepted")
    with suppress(ValueError):
        if int(request.headers.get("content-length", "0")) > MOST_BYTES:
            raise too_large
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BYTES:
            raise too_large
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"the body is not a valid request: {error}") from None


def _rows(languages: Sequence[LanguageMetric]) -> list[dict[str, Any]]:
    """The metric of each language as plain data; None for numbers that are not finite, which JSON does not have."""
    return [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in map(dataclasses.asdict, languages)
    ]


def _error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": text}, status_code=status, headers=headers)


_SENTENCES = {404: "there is nothing at this address", 405: "this address does not accept this method"}


def _http_error(_request: Request, error: HTTPException) -> Response:
    return _error(error.status_code, _SENTENCES.get(error.status_code, error.detail), error.headers)


def _user_error(_request: Request, error: HeadwiseError) -> Response:
    return _error(400, str(error))


def _stopped(_request: Request, _error_of_work: StoppedError) -> Response:
    return _error(409, "a newer request has replaced this one")


def _internal_error(_request: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, ClientDisconnect) else 500
    return _error(status, f"the explorer has failed with {type(error).__name__}: see its terminal for details")
