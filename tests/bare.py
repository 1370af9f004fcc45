"""An interpreter's packages, cut down to torch, numpy and what they require."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


def link_packages(folder: Path) -> None:
    """Fill `folder` with links to torch, numpy and what they require: what PYTHONPATH may name with `python -S`."""
    names: set[str] = set()
    for name in ("torch", "numpy"):
        _needed(name, names)
    for name in names:
        files = distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            source = Path(str(distribution(name).locate_file(top)))
            if not (folder / top).exists():
                (folder / top).symlink_to(source)


def _needed(name: str, found: set[str]) -> None:
    """Collect the names of a distribution and of everything it requires here (extras left out)."""
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:
        return
    found.add(name)
    for text in requirements:
        requirement = Requirement(text)
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            _needed(requirement.name, found)
