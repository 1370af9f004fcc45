"""The pages that list runs and draw their plans, in a browser where there is one."""

import re
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest
from langgraph_sdk.client import LangGraphClient

from graph.edits import EditBatch, Insert
from graph.report.loading import load_run
from graph.server.drawing import draw
from graph.steering import Change, ask
from graph.world_model import Intent
from tests.server.test_continuing import context

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="session")
def browser() -> str:
    """Return Chromium."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    return found


def dom(browser: str, folder: Path, url: str) -> str:
    """Return a page as the browser sees it after its scripts, if there were any, have run."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom"]
    done = subprocess.run([browser, *options, url], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
async def thread(client: LangGraphClient, home: Path) -> str:
    """Return a finished run with a node whose texts are hostile."""
    uuid = (await client.threads.create())["thread_id"]
    await client.runs.wait(uuid, "search", input={}, context=context(max_evaluations=4))
    intent = Intent(title=HOSTILE, description=HOSTILE, priority=0.5)
    await ask(home, uuid, Change(EditBatch(origin="human", edits=(Insert(parent="root", intent=intent),))))
    return uuid


async def test_a_browser_shows_runs_and_draws_a_plan(
    browser: str, address: str, home: Path, thread: str, tmp_path: Path
) -> None:
    run = load_run(home, thread)
    listed = dom(browser, tmp_path, f"{address}/ksearch/")
    assert f'<a href="/ksearch/runs/{thread}">{run.name}</a>' in listed

    shown = dom(browser, tmp_path, f"{address}/ksearch/runs/{thread}")
    assert f"<title>{run.name}</title>" in shown
    assert set(re.findall(r'<g id="(\w+)"', shown)) == {"root", *(node.id for node in run.model.nodes)}
    assert shown.count("<circle") == len(run.model.nodes) + 1
    assert shown.count("<path") == len(run.model.nodes)
    # What models write is text.
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<img" not in shown


async def test_pages_allow_nothing_but_their_own_style(address: str, thread: str) -> None:
    async with httpx2.AsyncClient(base_url=address) as http:
        for path in ("/ksearch/", f"/ksearch/runs/{thread}", "/ksearch/style.css"):
            page = await http.get(path)
            assert page.status_code == 200
            assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
            assert page.headers["referrer-policy"] == "same-origin", "else the button's origin would be `null`"
        assert (await http.get("/ksearch")).headers["location"] == "/ksearch/"
        unknown = await http.get("/ksearch/runs/nothing<b>")
        assert unknown.status_code == 404
        assert unknown.headers["content-type"].startswith("text/plain")


async def test_a_drawing_has_each_node_on_a_row_below_its_parent(home: Path, thread: str) -> None:
    run = load_run(home, thread)
    places = {place.id: place for place in draw(run.model, "n1", "x").places}
    assert len({place.y for place in places.values()}) == len(run.model.nodes) + 1
    for node in run.model.nodes:
        parent = places[node.parent]
        assert (places[node.id].up, places[node.id].x - parent.x) == (parent.y, 26)
        assert places[node.id].y > parent.y
    assert [place.id for place in places.values() if place.best] == ["n1"]
