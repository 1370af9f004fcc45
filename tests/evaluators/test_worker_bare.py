"""The worker needs nothing but the standard library, numpy and torch: proved in an interpreter that has no more."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from evaluators.jobs import job_data
from tests.bare import link_packages
from tests.evaluators import tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds links to torch, numpy and what they require, and a copy of the worker."""
    folder = tmp_path_factory.mktemp("bare")
    link_packages(folder)
    package = folder / "worker" / "evaluators" / "worker"
    package.mkdir(parents=True)
    (folder / "worker" / "evaluators" / "__init__.py").write_text("")
    for module in (ROOT / "evaluators" / "worker").glob("*.py"):
        shutil.copyfile(module, package / module.name)
    return folder


def _run(bare: Path, *arguments: str, stdin: str = "") -> str:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{bare}/worker:{bare}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-W", "error", *arguments],
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_else_of_ours_or_our_dependencies_is_there(bare: Path) -> None:
    script = """
        import importlib.util
        for name in ("pydantic", "langgraph", "jinja2.nonsense", "graph", "evaluators.task", "aiosqlite", "typer"):
            try:
                found = importlib.util.find_spec(name)
            except ModuleNotFoundError:
                found = None
            assert found is None, name
    """
    _run(bare, "-c", textwrap.dedent(script))


def test_every_module_imports(bare: Path) -> None:
    modules = sorted(path.stem for path in (ROOT / "evaluators" / "worker").glob("*.py"))
    script = "import importlib\n" + "".join(
        f"importlib.import_module('evaluators.worker.{name}')\n" for name in modules
    )
    _run(bare, "-c", script)


def test_a_job_runs_from_start_to_verdict(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    job = job_data(tiny.softmax(), [tiny.GOOD_CPP, tiny.GOOD_DPS], "search", ())
    request = json.dumps({"op": "run", "job": job}) + "\n"
    # The supervisor ends at once when its stdin closes, so the input is held open until its answer is read.
    process = subprocess.Popen(
        [sys.executable, "-S", "-P", "-m", "evaluators.worker.supervisor", str(scratch), str(4 << 30)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{bare}/worker:{bare}", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request)
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    process.stdin.close()
    process.wait(timeout=200)
    process.stdout.close()
    verdict = answer["verdict"]
    assert [program["status"] for program in verdict["programs"]] == ["passed", "passed"]
    assert all(program["objective"]["value"] > 0 for program in verdict["programs"])
    assert [(pair["a"], pair["b"]) for pair in verdict["pairs"]] == [(0, 1)]
