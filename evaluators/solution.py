"""A candidate program: its files and how it is called. Its content is its identity."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from evaluators.digest import digest_json
from evaluators.objective import Record

Language = Literal["cpp", "python", "triton", "cuda"]
Binding = Literal["plain_c", "torch", "dps", "value", "custom_kernel", "model_new", "file"]
SUFFIX: Mapping[Language, str] = {"cpp": ".cpp", "python": ".py", "triton": ".py", "cuda": ".cu"}


class Solution(Record):
    """One program for one task."""

    files: dict[str, str] = Field(min_length=1)
    """File name (flat, no folders) -> text with Unix line ends."""
    main_file: str = ""
    """The file that defines the entry point; left out: the first. (The order of `files` is lost in canonical JSON.)"""
    language: Language
    entry_point: str = Field(min_length=1)
    """Name of the function that is called, in the main file."""
    binding: Binding
    """How it is called: `plain_c` C function with pointers; `dps` Python, outputs passed in; `value` returned;
    `file` not by us: a user's evaluator takes it."""
    flags: tuple[str, ...] = ()
    """Compiler flags that the program declares."""

    @model_validator(mode="before")
    @classmethod
    def _first_file_is_main(cls, data: Any) -> Any:
        return with_main_file(data, "files")

    @model_validator(mode="after")
    def _main_file_exists(self) -> "Solution":
        if self.main_file not in self.files:
            raise ValueError(f"main_file: there is no file {self.main_file!r}")
        return self

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
        return self._kept("_digest", lambda: digest_json(self.model_dump(mode="json")))


def with_main_file(data: Any, files: str) -> Any:
    """Return a record's raw fields with `main_file` set to the first of the mapping `files` where it was left out."""
    if isinstance(data, Mapping) and not data.get("main_file") and isinstance(data.get(files), Mapping):
        return {**data, "main_file": next(iter(data[files]), "")}
    return data
