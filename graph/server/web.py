"""Pages of our own under the LangGraph server: runs and their plans, without internet and without scripts.

They read the folder of runs as `ksearch show` does. What models wrote is text, never markup: templates escape all of
it, and the pages allow no script at all.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from checkpoints.place import find_place
from evaluators.errors import StoreError, UsageError
from graph.report.listing import by_descent, listing
from graph.report.loading import load_all, load_run, load_solution
from graph.report.summary import summary_lines
from graph.server.drawing import draw
from graph.server.sharing import share
from graph.steering import begin_to_pause

_log = logging.getLogger(__name__)

AGAIN_S = 5
"""A page of something that is at work loads itself again after so many seconds."""
_PAGES = Path(__file__).parent / "pages"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none, browsers keep silent about the origin of our own form too
}
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_PAGES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def runs(request: Request) -> Response:
    """List the runs, each branch below the run that it came from."""
    found = by_descent([listing(*run) for run in load_all(None)])
    at_work = any(run["status"] == "running" for run in found)
    return _page("runs.html", title="Runs", runs=found, again_s=AGAIN_S if at_work else 0)


def run(request: Request) -> Response:
    """Show how a run stands, and draw its plan."""
    found = load_run(None, request.path_params["name"])
    incumbent = None if found.incumbent is None else found.incumbent["node"]
    program = load_solution(None, found)
    at_work = found.snapshot.thread.status == "running"
    return _page(
        "run.html",
        title=found.name,
        at_work=at_work,
        facts=list(summary_lines(found)),
        plan=draw(found.model, incumbent, found.unit),
        summary=found.model.summary,
        program={} if program is None else program.files,
        again_s=AGAIN_S if at_work else 0,
    )


def pause(request: Request) -> Response:
    """Ask a run to pause after the step that is under way, whoever runs it; lead back to it."""
    if not _from_here(request):
        return PlainTextResponse("only the run's own page may ask that\n", status_code=403, headers=_HEADERS)
    name = request.path_params["name"]
    begin_to_pause(find_place(), name)
    return RedirectResponse(f"/ksearch/runs/{name}", status_code=303, headers=_HEADERS)


def _from_here(request: Request) -> bool:
    """Return whether a request comes from our own page or from no page; plain http may tell its origin alone."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("none", "same-origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def style(request: Request) -> Response:
    """Return the style sheet."""
    return FileResponse(_PAGES / "style.css", media_type="text/css", headers=_HEADERS)


def start(request: Request) -> Response:
    """Lead to the list."""
    return RedirectResponse("/ksearch/")


def _page(template: str, **values: Any) -> Response:
    return HTMLResponse(_TEMPLATES.get_template(template).render(**values), headers=_HEADERS)


async def _refused(request: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, UsageError) else 503
    return PlainTextResponse(f"{error}\n", status_code=status, headers=_HEADERS)


@asynccontextmanager
async def _sharing(app: Starlette) -> AsyncIterator[None]:
    sharing = asyncio.create_task(share())
    sharing.add_done_callback(_told)
    try:
        yield
    finally:
        sharing.cancel()
        await asyncio.wait([sharing])


def _told(sharing: asyncio.Task[Any]) -> None:
    error = None if sharing.cancelled() else sharing.exception()
    if error is not None:
        _log.error("assistants and the command line's runs are not shown any more", exc_info=error)


app = Starlette(
    routes=[
        Route("/ksearch", start),
        Route("/ksearch/", runs),
        Route("/ksearch/style.css", style),
        Route("/ksearch/runs/{name}", run),
        Route("/ksearch/runs/{name}/pause", pause, methods=["POST"]),
    ],
    exception_handlers={UsageError: _refused, StoreError: _refused},
    lifespan=_sharing,
)
