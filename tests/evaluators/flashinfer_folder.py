"""A small flashinfer-trace folder."""

import json
import struct
from pathlib import Path
from typing import Any

NAME = "tiny_paged_decode_h4_kv2_d8_ps1"
REFERENCE = """
import math
import torch

inputs = "a name of the reference's own"

def run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    output = torch.zeros_like(q)
    lse = torch.zeros(q.shape[:2], dtype=torch.float32, device=q.device)
    for row in range(q.shape[0]):
        slots = kv_indices[kv_indptr[row] : kv_indptr[row + 1]].long()
        keys = k_cache[slots, 0].float().repeat_interleave(2, dim=1)
        values = v_cache[slots, 0].float().repeat_interleave(2, dim=1)
        logits = torch.einsum("hd,lhd->hl", q[row].float(), keys) * sm_scale
        lse[row] = torch.logsumexp(logits, dim=-1) / math.log(2)
        output[row] = torch.einsum("hl,lhd->hd", torch.softmax(logits, -1), values).to(q.dtype)
    return output, lse
"""
PROGRAM = (
    REFERENCE
    + """
def into(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale, output, lse):
    made = run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale)
    output.copy_(made[0])
    lse.copy_(made[1])
"""
)
"""The reference as a program, value-returning (`run`) and destination-passing (`into`)."""


def tensor(*shape: str, dtype: str = "bfloat16") -> dict[str, Any]:
    return {"shape": list(shape), "dtype": dtype}


def definition() -> dict[str, Any]:
    """A paged decode, as the format writes it."""
    return {
        "name": NAME,
        "op_type": "gqa_paged",
        "tags": ["model:tiny"],
        "description": "A tiny decode.",
        "axes": {
            "batch_size": {"type": "var"},
            "num_pages": {"type": "var"},
            "len_indptr": {"type": "var", "description": "batch_size + 1"},
            "num_kv_indices": {"type": "var"},
            "heads": {"type": "const", "value": 4},
            "kv_heads": {"type": "const", "value": 2},
            "head_dim": {"type": "const", "value": 8},
            "page_size": {"type": "const", "value": 1},
        },
        "constraints": ["len_indptr == batch_size + 1"],
        "inputs": {
            "q": tensor("batch_size", "heads", "head_dim"),
            "k_cache": tensor("num_pages", "page_size", "kv_heads", "head_dim"),
            "v_cache": tensor("num_pages", "page_size", "kv_heads", "head_dim"),
            "kv_indptr": tensor("len_indptr", dtype="int32"),
            "kv_indices": tensor("num_kv_indices", dtype="int32"),
            "sm_scale": {"shape": None, "dtype": "float32", "description": "1 / sqrt(head_dim)"},
        },
        "outputs": {
            "output": tensor("batch_size", "heads", "head_dim"),
            "lse": tensor("batch_size", "heads", dtype="float32"),
        },
        "reference": REFERENCE,
    }


def workload(uuid: str, batch: int, pages: int, tokens: int) -> dict[str, Any]:
    """A line of workloads."""
    blob = {"type": "safetensors", "path": f"./blob/workloads/gqa_paged/{NAME}/{uuid}.safetensors"}
    return {
        "definition": NAME,
        "solution": None,
        "workload": {
            "uuid": uuid,
            "axes": {
                "batch_size": batch, "num_pages": pages, "len_indptr": batch + 1, "num_kv_indices": tokens,
            },
            "inputs": {
                "q": {"type": "random"},
                "k_cache": {"type": "random"},
                "v_cache": {"type": "random"},
                "kv_indptr": {**blob, "tensor_key": "kv_indptr"},
                "kv_indices": {**blob, "tensor_key": "kv_indices"},
                "sm_scale": {"type": "scalar", "value": 0.35355339},
            },
        },
        "evaluation": None,
    }  # fmt: skip


UUIDS = ("9c21179a-0000-4000-8000-000000000001", "85c1e8ef-0000-4000-8000-000000000002")


def write_folder(root: Path, made: dict[str, Any] | None = None, lines: list[dict[str, Any]] | None = None) -> Path:
    """Write the folder without its blobs."""
    path = root / "definitions" / "gqa_paged" / f"{NAME}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(definition() if made is None else made))
    lines = [workload(UUIDS[0], 1, 40, 17), workload(UUIDS[1], 3, 40, 30)] if lines is None else lines
    path = root / "workloads" / "gqa_paged" / f"{NAME}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return root


def blob_path(root: Path, uuid: str = UUIDS[1]) -> Path:
    return root / "blob" / "workloads" / "gqa_paged" / NAME / f"{uuid}.safetensors"


def write_tensors(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    """Write name -> (type in the file, such as `I32`, shape, bytes) as a safetensors file."""
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def write_blob(root: Path, indptr: list[int], indices: list[int], uuid: str = UUIDS[1]) -> Path:
    """Write a workload's indices."""
    tensors = {
        name: ("I32", (len(values),), struct.pack(f"<{len(values)}i", *values))
        for name, values in (("kv_indptr", indptr), ("kv_indices", indices))
    }
    write_tensors(blob_path(root, uuid), tensors)
    return blob_path(root, uuid)
