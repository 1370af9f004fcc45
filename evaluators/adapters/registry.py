"""Which module reads which kind of task reference. A module is imported only when a reference names it."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, cast

from evaluators.task import Task

ADAPTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "file": ("evaluators.adapters.own_file", "file.py"),
        "flashinfer": ("evaluators.adapters.flashinfer.load", "flashinfer:ROOT#DEFINITION"),
        "kernelbench": ("evaluators.adapters.kernelbench", "kernelbench:FILE"),
        "gpumode": ("evaluators.adapters.gpumode_folder", "gpumode:FOLDER"),
    }
)
"""Prefix of a reference (`PREFIX:REST`) -> module with `load_task`, and how a reference looks, for people."""


class Adapter(Protocol):
    """What an adapter's module offers."""

    def load_task(self, rest: str) -> Task:
        """Return the task that `rest`, what stands behind the prefix and its colon, names.

        Everything that the task needs later is in the record: its files may change or go. Raises TaskError, one line
        that names the file, the field and the reason.
        """
        ...


def load_adapted(prefix: str, rest: str) -> Task:
    """Return the task that an adapter reads. Raises TaskError."""
    module = importlib.import_module(ADAPTERS[prefix][0])
    return cast(Adapter, module).load_task(rest)
