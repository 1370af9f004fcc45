"""What a person is asked by `manual`: read by the command line, which does without LangGraph."""

from typing import Any, Literal

from evaluators.objective import Record
from nodes.models.chat import Message, Role


class ManualQuestion(Record):
    """What a person is asked."""

    kind: Literal["manual"] = "manual"
    request: str
    """Digest of the request: the same whenever it is asked again."""
    role: Role
    round: int
    cycle: int
    sample: int
    turn: int
    system: str
    prompt: str
    turns: tuple[Message, ...] = ()
    reply_schema: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """What people call it, such as `coder-r3-c2-s1-4f2a91`: its place, and what tells it from others there.

        LangGraph's id of the interrupt will not do: a node that asks again with a correction asks under the same one.
        """
        place = [self.role, f"r{self.round}"]
        place += [f"c{self.cycle}", f"s{self.sample}"] if self.cycle else []
        place += [f"t{self.turn}"] if self.turn else []
        return "-".join([*place, self.request[:6]])
