"""The page over HTTP: one person's window into a model, on this machine alone.

What is unusual: nothing from elsewhere gets in. Host and Origin must be this machine's (a page in another tab could
send requests here, or have its own name lead here), no answer may be read by another origin, and what the page may load
is named by its policy: its own files. One model runs at a time, in a thread; whoever closes a tab, or types on, is not
waited for.
What it does not know: how views come to be (`inspect.views`) and what the page makes of them (`inspect/page`).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeVar

from anyio.to_thread import run_sync
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard import __version__
from regard.errors import ConfigError, UserError
from regard.inspect.asked import AskedEdges, AskedRoles, AskedRun, Refused, not_as_asked, read
from regard.inspect.bundle import PAGE
from regard.inspect.desk import Desk, Opener, Run
from regard.inspect.effects import edge_effects
from regard.inspect.embedded import page_of
from regard.inspect.payload import as_dtype, error_json, lens_json, name_of, packed, rows_of, write_npz
from regard.inspect.samples import Sample

T = TypeVar("T")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin", "cache-control": "no-store",
}  # fmt: skip
HERE = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")
"""What a browser on this machine calls us."""
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
WAIT = 0.2
"""Seconds between two looks at whether somebody still waits."""


def make_app(
    paths: Sequence[Path], open_model: Opener, *, asked: Sample | None = None, roles_cache: Path | None = None
) -> FastAPI:
    """The page of one model, or of two beside each other, as an ASGI application.

    Args:
        paths: of the models; opened now, and again when they have changed and the page is loaded anew.
        open_model: opens a folder (`regard.load`).
        asked: what to show first.
        roles_cache: a folder for roles of heads, which take long; None: they are found anew each time.

    Raises:
        CheckpointError: a model cannot be opened.
    """
    app = FastAPI(title="regard look", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    routes = Routes(Desk(paths, open_model, asked=asked, roles_cache=roles_cache))
    for path, method, function in (
        ("/", "GET", routes.index), ("/page/{file}", "GET", routes.file), ("/api/models", "GET", routes.models),
        ("/api/model", "GET", routes.model), ("/api/run", "POST", routes.run), ("/api/roles", "POST", routes.roles),
        ("/api/runs/{run}/tensor", "GET", routes.tensor), ("/api/runs/{run}/edges", "POST", routes.edges),
        ("/api/runs/{run}/lens", "GET", routes.lens), ("/api/runs/{run}/npz", "GET", routes.npz),
        ("/api/runs/{run}/html", "GET", routes.html),
    ):  # fmt: skip
        app.add_api_route(path, function, methods=[method], response_model=None)
    for kind in (Refused, UserError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, on_error)
    app.add_middleware(Guard)
    return app


class Routes:
    """What is answered to what; the state is the desk's."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.turn, self.roles_turn = desk, asyncio.Lock(), threading.Lock()

    async def _computed(self, request: Request, work: Callable[[], T]) -> T:
        """`work` in a thread, when it is its turn; of somebody who has left by then, not at all."""
        async with self.turn:
            if await request.is_disconnected():
                raise Refused(499, UserError("nobody waits for this any more"))
            return await run_sync(work)

    def _found(self, run: str) -> Run:
        found = self.desk.find(run)
        if found is None:
            raise Refused(404, ConfigError("this run is not kept any more", where=run[:80], mend="run it again"))
        return found

    async def index(self) -> Response:
        """The page."""
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    async def file(self, file: str) -> Response:
        """Its style and its modules; nothing else lies there."""
        kind = KINDS.get(Path(file).suffix)
        if kind is None or file not in {path.name for path in PAGE.iterdir()}:
            raise HTTPException(404)
        return Response((PAGE / file).read_bytes(), media_type=f"{kind}; charset=utf-8")

    async def models(self) -> Response:
        """Which models there are."""
        opened = [self.desk.model(index).loaded.path for index in range(len(self.desk))]
        found = [{"index": i, "name": name_of(path), "path": str(path)} for i, path in enumerate(opened)]
        return answer(found)

    async def model(self, request: Request, model: int = 0) -> Response:
        """All about one of them, as it lies on disk now."""
        return answer(await self._computed(request, lambda: self.desk.reload(model)))

    async def run(self, request: Request) -> Response:
        """Run it once, and say what was seen."""
        asked = await read(request, AskedRun)
        wanted = asked.request()
        found = await self._computed(request, lambda: self.desk.run(wanted, index=asked.model, snapshot=asked.snapshot))
        return answer(found.json())

    async def tensor(
        self, run: str, name: Annotated[list[str], Query()], dtype: str = "float32", rows: str | None = None
    ) -> Response:
        """Tensors of a run, one after another; X-Tensors says where each lies."""
        view = self._found(run).view

        def pack() -> tuple[bytes, list[dict[str, Any]]]:
            return packed((one, as_dtype(rows_of(view.tensor(one), rows), dtype)) for one in name)

        body, index = await run_sync(pack)
        return Response(body, media_type="application/octet-stream", headers={"x-tensors": json.dumps(index)})

    async def edges(self, request: Request, run: str) -> Response:
        """What each edge of a query does to what its row writes."""
        asked, found = await read(request, AskedEdges), self._found(run)
        effects = await self._computed(
            request,
            lambda: edge_effects(found.view, asked.part, asked.layer, asked.head, asked.query),
        )
        return answer({"effects": effects.tolist()})

    async def lens(self, request: Request, run: str) -> Response:
        """What each layer would have written."""
        found = self._found(run)
        return answer(await self._computed(request, lambda: lens_json(found.view)))

    async def npz(self, run: str) -> Response:
        """All that was seen, as NumPy's."""
        found, stream = self._found(run), BytesIO()
        await run_sync(lambda: write_npz(stream, found.view.tensors))
        return attached(stream.getvalue(), f"{name_of(found.model.loaded.path)}.npz", "application/octet-stream")

    async def html(self, request: Request, run: str) -> Response:
        """The page with this run in it, as one file."""
        found = self._found(run)
        page = await self._computed(request, lambda: page_of(found.model.loaded, [found.view], mark=found.model.mark))
        return attached(page.encode(), f"{name_of(found.model.loaded.path)}.html", "text/html; charset=utf-8")

    async def roles(self, request: Request) -> Response:
        """What each head does, over many sentences, as lines of JSON: how far it is, then all roles."""
        asked = await read(request, AskedRoles)
        self.desk.model(asked.model)  # to refuse before anything streams
        return StreamingResponse(self._roles(asked), media_type="application/x-ndjson")

    async def _roles(self, asked: AskedRoles) -> AsyncIterator[bytes]:
        """The lines; the work stops soon after nobody reads them any more."""
        loop, lines, stop = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]](), threading.Event()

        def tell(line: dict[str, Any]) -> None:
            if not stop.is_set():
                loop.call_soon_threadsafe(lines.put_nowait, line)

        def work() -> None:
            while not self.roles_turn.acquire(timeout=WAIT):  # beside other work, but one of its kind at a time
                if stop.is_set():
                    return
            try:
                found = self.desk.roles(
                    asked.model, asked.part, asked.sentences, lambda done, of: tell({"progress": done, "of": of}),
                    stop.is_set,
                )  # fmt: skip
                tell(found)
            except UserError as error:
                tell(error_json(error))
            except Exception as error:
                tell(fault(error))
            finally:
                self.roles_turn.release()

        loop.run_in_executor(None, work)
        try:
            line = dict[str, Any]()
            while not {"roles", "error"} & line.keys():
                line = await lines.get()
                yield told(line) + b"\n"
        finally:
            stop.set()


# ---------------------------------------------------------------- the way in and out


class Guard:
    """Refuses what does not come from this machine's own page, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Request(scope).headers
        host, origin = headers.get("host", ""), headers.get("origin")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *ours]
            await send(message)

        if HERE.fullmatch(host) and origin in (None, f"http://{host}"):
            await self.app(scope, receive, send_with_headers)
            return
        what, got = ("Host", host) if not HERE.fullmatch(host) else ("Origin", str(origin))
        error = ConfigError("this page is for this machine alone", where=what, expected="localhost or 127.0.0.1",
                            got=got[:200], mend="open the address that regard look printed")  # fmt: skip
        await answer(error_json(error), 403)(scope, receive, send_with_headers)


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON; a number that is none is null, half a character its escape."""
    return Response(told(value), status, headers, "application/json")


def told(value: Any) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def attached(body: bytes, name: str, kind: str) -> Response:
    """A file to be saved."""
    plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
    return Response(body, media_type=kind, headers={"content-disposition": f'attachment; filename="{plain}"'})


def fault(error: Exception) -> dict[str, Any]:
    """What nobody foresaw, in our form of error; the terminal has the rest."""
    traceback.print_exception(error)
    return error_json(UserError("a fault in regard", got=f"{type(error).__name__}: {error}"[:500],
                                mend="please report it, with what the terminal shows"))  # fmt: skip


async def on_error(request: Request, error: Exception) -> Response:
    """Any exception as our form of error."""
    match error:
        case Refused():
            return answer(error_json(error.error), error.status)
        case UserError():
            return answer(error_json(error), 422)
        case RequestValidationError():
            return answer(error_json(not_as_asked(error.errors()[0])), 422)
        case HTTPException():
            what = "there is no such page" if error.status_code == 404 else str(error.detail)
            return answer(error_json(ConfigError(what, where=request.url.path[:200])), error.status_code)
    return answer(fault(error), 500, HEADERS)
