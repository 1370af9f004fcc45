"""Decode attention over a paged cache in Triton, the plain way: one program for each sequence and key head."""

import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def _decode(
    q, k_cache, v_cache, kv_indptr, kv_indices, scale, output, lse,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS >= 16 query rows of one key head, those beyond the group masked; logits are to the base 2."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    group: tl.constexpr = HEADS // KV_HEADS
    row, column, lane = tl.arange(0, ROWS), tl.arange(0, DIM), tl.arange(0, BLOCK)
    query_head = sequence * HEADS + head * group + row
    query = tl.load(q + query_head[:, None] * DIM + column, mask=row[:, None] < group, other=0.0)
    start, end = tl.load(kv_indptr + sequence), tl.load(kv_indptr + sequence + 1)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    summed = tl.zeros([ROWS, DIM], tl.float32)
    for first in range(start, end, BLOCK):
        valid = first + lane < end
        slot = tl.load(kv_indices + first + lane, mask=valid, other=0).to(tl.int64)
        place = (slot * KV_HEADS + head)[:, None] * DIM + column
        key = tl.load(k_cache + place, mask=valid[:, None], other=0.0)
        value = tl.load(v_cache + place, mask=valid[:, None], other=0.0)
        logits = tl.where(valid, tl.dot(query, tl.trans(key)) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(logits, 1))
        weight, kept = tl.exp2(logits - higher[:, None]), tl.exp2(top - higher)
        total = total * kept + tl.sum(weight, 1)
        summed = summed * kept[:, None] + tl.dot(weight.to(value.dtype), value)
        top = higher
    tl.store(output + query_head[:, None] * DIM + column, summed / total[:, None], mask=row[:, None] < group)
    tl.store(lse + query_head, top + tl.log2(total), mask=row < group)


def run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale, output, lse):
    """Write the attention of q: [batch, 32, 128] into output: [batch, 32, 128] and lse: [batch, 32]."""
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    rows = max(16, triton.next_power_of_2(heads // kv_heads))
    _decode[(batch, kv_heads)](
        q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale * LOG2_E, output, lse,
        HEADS=heads, KV_HEADS=kv_heads, DIM=dim, ROWS=rows, BLOCK=64,
    )  # fmt: skip
