"""Decode attention over a compressed paged cache in Triton, the plain way: one program for each sequence."""

import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def _decode(
    q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, scale, output, lse,
    HEADS: tl.constexpr, CKV: tl.constexpr, KPE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All heads of one sequence; logits are to the base 2."""
    sequence = tl.program_id(0)
    head, lane = sequence * HEADS + tl.arange(0, HEADS), tl.arange(0, BLOCK)
    wide, narrow = tl.arange(0, CKV), tl.arange(0, KPE)
    nope = tl.load(q_nope + head[:, None] * CKV + wide)
    rope = tl.load(q_pe + head[:, None] * KPE + narrow)
    start, end = tl.load(kv_indptr + sequence), tl.load(kv_indptr + sequence + 1)
    top = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    summed = tl.zeros([HEADS, CKV], tl.float32)
    for first in range(start, end, BLOCK):
        valid = first + lane < end
        slot = tl.load(kv_indices + first + lane, mask=valid, other=0).to(tl.int64)
        compressed = tl.load(ckv_cache + slot[:, None] * CKV + wide, mask=valid[:, None], other=0.0)
        rotary = tl.load(kpe_cache + slot[:, None] * KPE + narrow, mask=valid[:, None], other=0.0)
        logits = tl.dot(nope, tl.trans(compressed)) + tl.dot(rope, tl.trans(rotary))
        logits = tl.where(valid, logits * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(logits, 1))
        weight, kept = tl.exp2(logits - higher[:, None]), tl.exp2(top - higher)
        total = total * kept + tl.sum(weight, 1)
        summed = summed * kept[:, None] + tl.dot(weight.to(compressed.dtype), compressed)
        top = higher
    tl.store(output + head[:, None] * CKV + wide, summed / total[:, None])
    tl.store(lse + head, top + tl.log2(total))


def run(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale, output, lse):
    """Write the attention of [batch, 16, 512 + 64] into output: [batch, 16, 512] and lse: [batch, 16]."""
    batch, heads, ckv = q_nope.shape
    _decode[(batch,)](
        q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale * LOG2_E, output, lse,
        HEADS=heads, CKV=ckv, KPE=q_pe.shape[2], BLOCK=32, num_warps=8, num_stages=2,
    )  # fmt: skip
