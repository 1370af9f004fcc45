"""What the core and the worker may import, as an allow-list: import-linter can only forbid what it is told of."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"graph", "nodes", "prompts", "evaluators", "checkpoints"}
IMPURE = {"asyncio", "datetime", "os", "pathlib", "random", "secrets", "socket", "sqlite3", "subprocess", "time"}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
CORE = next(contract for contract in CONTRACTS if contract["id"] == "core")["source_modules"]
WORKER = [f"evaluators.worker.{file.stem}" for file in sorted((ROOT / "evaluators/worker").glob("[!_]*.py"))]

SOURCES = "evaluators.adapters.gpumode.sources"


def imported(module: str) -> Iterator[str]:
    """Every module that `module` names in an import, wherever it stands."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            assert node.module is not None
            yield node.module
            if node.module in OURS or node.module == "evaluators.worker":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("module", CORE)
def test_the_core_imports_the_standard_library_pydantic_and_itself(module: str) -> None:
    for name in imported(module):
        root = name.split(".")[0]
        assert name in CORE or (root not in OURS and (root in sys.stdlib_module_names or root == "pydantic")), name
        assert root not in IMPURE, name


@pytest.mark.parametrize("module", WORKER)
def test_the_worker_imports_the_standard_library_numpy_torch_triton_and_itself(module: str) -> None:
    for name in imported(module):
        root = name.split(".")[0]
        assert root in sys.stdlib_module_names | {"numpy", "torch", "triton"} or name.startswith("evaluators.worker")


@pytest.mark.parametrize("file", sorted((ROOT / SOURCES.replace(".", "/")).glob("*.py")), ids=lambda file: file.stem)
def test_the_sources_of_tasks_import_the_standard_library_torch_and_names_of_each_other(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        assert not (isinstance(node, ast.ImportFrom) and node.module == "__future__"), "they are not at a text's top"
    for name in imported(f"{SOURCES}.{file.stem}"):
        assert name.split(".")[0] in sys.stdlib_module_names | {"torch"} or name.startswith(f"{SOURCES}.")


def test_there_is_something_to_check() -> None:
    assert {"graph.world_model", "graph.edits", "graph.policies", "evaluators.task"} <= set(CORE)
    assert "evaluators.worker.status" in WORKER


@pytest.mark.parametrize("package", sorted(OURS))
def test_packages_import_nothing(package: str) -> None:
    """`__init__` files hold a docstring only."""
    for file in (ROOT / package).rglob("__init__.py"):
        (only,) = ast.parse(file.read_text()).body
        assert isinstance(only, ast.Expr), file
