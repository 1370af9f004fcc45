"""How state becomes bytes: plain JSON and LangGraph's own control records, nothing else."""

from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

_SCALARS = (str, int, float, bool, bytes, type(None))
# Without these flags ormsgpack would turn dataclasses, dates and their like into something that a resumed run
# reads back as another type.
_PLAIN = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_REPLACE_SURROGATES
)


class PlainSerializer(JsonPlusSerializer):
    """LangGraph's serializer for a state of plain JSON.

    Anything else is refused when it is written, where the node that wrote it is at hand, and not noticed as
    another type after a resume. Reading is limited to LangGraph's built-in list of harmless types.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=[])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return (kind, bytes) of `obj`.

        Raises:
            TypeError: `obj` holds something that is neither JSON nor LangGraph's; the message says where.
        """
        if obj is None or isinstance(obj, bytes):
            return super().dumps_typed(obj)
        try:
            return "msgpack", ormsgpack.packb(obj, option=_PLAIN)
        except ormsgpack.MsgpackEncodeError:
            _require_plain(obj, "state")
            return super().dumps_typed(obj)


def _require_plain(value: Any, where: str) -> None:
    """Walk through `value`; only what LangGraph wrote itself, such as Sends, comes this way unless it is an error."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"{where} has the key {key!r}: keys of the state are strings")
            _require_plain(item, f"{where}.{key}")
    elif kind is list or (kind is tuple and all(isinstance(item, Interrupt) for item in value)):
        for index, item in enumerate(value):
            _require_plain(item, f"{where}[{index}]")
    elif kind is Send:
        _require_plain(value.arg, f"{where}.Send({value.node})")
    elif kind in (Interrupt, Overwrite):
        _require_plain(value.value, f"{where}.{kind.__name__}")
    elif kind not in _SCALARS and not isinstance(value, BaseException | Command | TimeoutPolicy):
        raise TypeError(f"{where} is a {kind.__qualname__}: the state holds plain JSON only")
