"""What a safetensors file says of a tensor, without reading it: eight bytes of length, JSON, then the data."""

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.errors import TaskError
from evaluators.worker.layout import ITEM_BYTES

_MAX_HEADER_BYTES = 1 << 24
TYPES = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Name of a type in the file -> ours."""


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor's bytes lie in its file, and what they are."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    """First byte, from the beginning of the file."""
    nbytes: int


def find_tensor(path: Path, key: str, place: str) -> StoredTensor:
    """Return the tensor `key` of the file at `path`. Raises TaskError that names `place` and the file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            begin = file.read(8)
            length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
            if begin.startswith(b"version "):
                raise TaskError(f"{place}: {path} is a pointer of Git LFS; fetch the file with: git lfs pull")
            if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
                raise TaskError(f"{place}: {path} is no safetensors file: its header has {length} bytes")
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as error:
        raise TaskError(f"{place}: {path} cannot be read: {error}") from error
    if not isinstance(header, dict) or key not in header:
        raise TaskError(f"{place}: {path} has no tensor {key!r}")
    entry = header[key]
    kind = entry.get("dtype") if isinstance(entry, dict) else None
    if isinstance(kind, str) and kind not in TYPES:
        raise TaskError(f"{place}: {path}: {key!r} is of type {kind!r:.80}, which is none of {', '.join(TYPES)}")
    found = _entry(entry, 8 + length)
    if found is None:
        raise TaskError(f"{place}: {path}: the entry of {key!r} is inconsistent")
    if found.start + found.nbytes > size:
        raise TaskError(f"{place}: {path}: is shorter than its entry of {key!r} says")
    return found


def file_digest(path: Path) -> str:
    """Return the sha256 of a file (64 hex digits)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _entry(entry: Any, data_start: int) -> StoredTensor | None:
    """Return a header's entry, None when it contradicts itself."""
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str) or entry["dtype"] not in TYPES:
        return None
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        return None
    nbytes = offsets[1] - offsets[0]
    if nbytes < 0 or math.prod(shape) * ITEM_BYTES[TYPES[entry["dtype"]]] != nbytes:
        return None
    return StoredTensor(TYPES[entry["dtype"]], tuple(shape), data_start + offsets[0], nbytes)


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
