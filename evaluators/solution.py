"""A candidate program: its files and how it is called. Its content is its identity."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from evaluators.digest import digest_json
from evaluators.objective import Record

Language = Literal["cpp", "python", "triton", "cuda"]
Binding = Literal["plain_c", "torch", "dps", "value", "custom_kernel", "model_new"]
SUFFIX: Mapping[Language, str] = {"cpp": ".cpp", "python": ".py", "triton": ".py", "cuda": ".cu"}


class Solution(Record):
    """One program for one task."""

    files: dict[str, str] = Field(min_length=1)
    """File name (flat, no folders) -> text with Unix line ends."""
    language: Language
    entry_point: str = Field(min_length=1)
    """Name of the function that is called, in the first file."""
    binding: Binding
    """How it is called: `plain_c` C function with pointers; `dps` Python, outputs passed in; `value` returned."""
    flags: tuple[str, ...] = ()
    """Compiler flags that the program declares."""

    @field_validator("files")
    @classmethod
    def _flat_names_unix_lines(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
                raise ValueError(f"file name {name!r} must be a plain name without folders")
        return {name: text.replace("\r\n", "\n").replace("\r", "\n") for name, text in files.items()}

    @property
    def digest(self) -> str:
        """Identity: sha256 over files, language, entry point, flags and binding (64 hex digits)."""
        return digest_json(self.model_dump(mode="json"))

    @property
    def main_file(self) -> str:
        """Name of the first file: the one that defines the entry point."""
        return next(iter(self.files))
