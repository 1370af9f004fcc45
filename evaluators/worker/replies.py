"""What a server of work writes: an answer to each request, and asides before it."""

import json
import os
from typing import Any

ASIDE = "aside"
"""Key of an aside; no answer has it."""
WAITING = {ASIDE: "waiting"}
"""The work waits for its turn on the machine."""
SAID = "said: "
"""How a line that a driver prints begins that is passed on at once, as `{"aside": "said", "line": ...}`."""


class Replies:
    """The other end of a server's standard output, one JSON object a line."""

    def __init__(self) -> None:
        """Take standard output; what is printed from now on goes to the log."""
        self._file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def write(self, reply: dict[str, Any]) -> None:
        """Write an answer or an aside."""
        self._file.write(json.dumps(reply) + "\n")
        self._file.flush()
