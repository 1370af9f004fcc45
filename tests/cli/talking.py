"""Planner and coder as small commands for `exec:`, and what a person would reply instead of them."""

import sys
from pathlib import Path

_COUNT = """#!{python}
import json, pathlib, sys
sys.stdin.read()
asked = pathlib.Path(sys.argv[0] + ".asked")
number = len(asked.read_text()) if asked.exists() else 0
asked.write_text("." * (number + 1))
"""
_HELD = """
import os, time
parent = os.getppid()
while number >= held and os.getppid() == parent and not pathlib.Path(sys.argv[0] + ".go").exists():
    time.sleep(0.02)
"""
_PLANNER = """
titles = ["Tile", "Unroll", "Fuse"] if number == 0 else ["Intent %d" % number]
edits = [
    {"kind": "insert", "parent": "root", "title": title, "description": "Do it.", "predicted_gain": 1.5,
     "confidence": 0.5, "priority": 0.3 if number else 0.9 - at / 10}
    for at, title in enumerate(titles)
]
print(json.dumps({"reason": "so", "summary": "known so far", "edits": edits}))
"""
_CODER = """
mark = marks[number % len(marks)]
if mark is None:
    print("I would rather not.")
else:
    name = pathlib.Path(sys.argv[0]).stem
    print("```cpp\\n// scripted: %s\\nint %s_%d;\\nextern \\"C\\" void scripted() {}\\n```" % (mark, name, number))
"""


def executable(path: Path, text: str) -> str:
    """Write a command and return the string that names it as a model."""
    path.write_text(text)
    path.chmod(0o700)
    return f"exec:./{path.name}"


def planner(folder: Path, name: str = "planner.py") -> str:
    """A planner that inserts three intents, then one more whenever it is asked."""
    return executable(folder / name, _COUNT.replace("{python}", sys.executable) + _PLANNER)


def coder(folder: Path, *marks: str | None, name: str = "coder.py") -> str:
    """A coder of programs for the scripted evaluator, in turn; None: a reply that holds none."""
    return executable(folder / name, _COUNT.replace("{python}", sys.executable) + f"marks = {marks!r}\n" + _CODER)


def held_coder(folder: Path, held: int, *marks: str) -> str:
    """A coder that keeps its replies from number `held` on (from 0) until they are released."""
    text = _COUNT.replace("{python}", sys.executable) + f"marks, held = {marks!r}, {held}\n" + _HELD + _CODER
    return executable(folder / "coder.py", text)


def release(folder: Path) -> None:
    """Let the replies of a held coder come."""
    (folder / "coder.py.go").touch()


def asked(folder: Path, name: str) -> int:
    """How often a command was asked."""
    file = folder / f"{name}.asked"
    return len(file.read_text()) if file.exists() else 0
