"""What people are told while a program waits for its turn to be judged."""

import logging
from collections.abc import Mapping
from typing import Any

from evaluators.worker.replies import WAITING

_log = logging.getLogger(__name__)


class Waits:
    """Tells once that others measure on this machine: each wait by itself would be told again and again."""

    def __init__(self) -> None:
        """Nothing is told yet."""
        self.told = False
        """Set it where waits are of our own making."""

    def hear(self, aside: Mapping[str, Any]) -> None:
        """Tell of a wait; of other asides nothing. Where nobody handles them, warnings go to stderr as they are."""
        if aside == WAITING and not self.told:
            self.told = True
            _log.warning("waiting: another ksearch process is at work on this machine")
