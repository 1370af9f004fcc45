"""Drivers asked in confined processes, one question at a time, for judges that run beside the program."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.adapters.driver_source import driver_source
from evaluators.evaluation import Effort
from evaluators.isolation import Answer, Isolations, Lock

RUNS: Mapping[Effort, int] = {"check": 1, "search": 1, "certify": 3}
"""How often a program is judged, each time in a process of its own."""


@dataclass(frozen=True)
class Question:
    """What a confined process is handed."""

    driver: str
    """Name of the module in adapters/drivers."""
    request: Mapping[str, Any]
    files: Mapping[str, str]
    """Name -> text."""
    readable: Sequence[Path] = ()
    """Further folders that it may read."""


class Confined:
    """Servers of confined processes. Use it from one event loop, and `ask` within `busy`."""

    def __init__(self) -> None:
        """Nothing starts until the first question."""
        self._isolations = Isolations()
        self.busy = asyncio.Lock()
        """Held from a verdict's first question to its last."""

    async def ask(self, device: str, question: Question, timeout_s: float, lock: Lock) -> Answer:
        """Return a driver's answer; when cancelled, its process is ended.

        Args:
            device: Of the task.
            question: What is asked.
            timeout_s: Wall-clock limit, seconds.
            lock: How the machine's timing lock is held, see `Isolation.run`.

        Raises IsolatedFailure, InfrastructureError.
        """
        try:
            return await asyncio.to_thread(self._run, device, question, timeout_s, lock)
        except asyncio.CancelledError:
            self._isolations.of(device).close()
            raise

    async def close(self) -> None:
        """End the processes. It can be used again."""
        await asyncio.to_thread(self._isolations.close)

    def _run(self, device: str, question: Question, timeout_s: float, lock: Lock) -> Answer:
        return self._isolations.of(device).run(
            driver_source(question.driver),
            question.request,
            files=question.files,
            readable=question.readable,
            timeout_s=timeout_s,
            lock=lock,
        )
