"""What one program changed in another, as a unified diff."""

import difflib

from evaluators.solution import Solution


def change(before: Solution | None, after: Solution | None) -> str | None:
    """Return the diff; None when a program is missing, nothing differs, or the diff is longer than the program."""
    if before is None or after is None:
        return None
    parts = []
    for name in sorted({*before.files, *after.files}):
        old, new = (solution.files.get(name, "").splitlines(keepends=True) for solution in (before, after))
        parts += [line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(old, new, name, name)]
    text = "".join(parts)
    return text if 0 < len(text) < sum(map(len, after.files.values())) else None
