"""Causal prefill attention over a compressed paged cache in Triton, the plain way: one program for each query."""

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def _prefill(
    q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, owner, scale, output, lse,
    HEADS: tl.constexpr, CKV: tl.constexpr, KPE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All heads of one query; logits are to the base 2."""
    query = tl.program_id(0)
    sequence = tl.load(owner + query)
    head, lane = query * HEADS + tl.arange(0, HEADS), tl.arange(0, BLOCK)
    wide, narrow = tl.arange(0, CKV), tl.arange(0, KPE)
    nope = tl.load(q_nope + head[:, None] * CKV + wide)
    rope = tl.load(q_pe + head[:, None] * KPE + narrow)
    start = tl.load(kv_indptr + sequence)
    # The queries are the last tokens of their sequence.
    end = tl.load(kv_indptr + sequence + 1) - (tl.load(qo_indptr + sequence + 1) - query) + 1
    top = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    summed = tl.zeros([HEADS, CKV], tl.float32)
    for first in range(start, end, BLOCK):
        seen = first + lane < end
        slot = tl.load(kv_indices + first + lane, mask=seen, other=0).to(tl.int64)
        compressed = tl.load(ckv_cache + slot[:, None] * CKV + wide, mask=seen[:, None], other=0.0)
        rotary = tl.load(kpe_cache + slot[:, None] * KPE + narrow, mask=seen[:, None], other=0.0)
        logits = tl.dot(nope, tl.trans(compressed)) + tl.dot(rope, tl.trans(rotary))
        logits = tl.where(seen, logits * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(logits, 1))
        weight, kept = tl.exp2(logits - higher[:, None]), tl.exp2(top - higher)
        total = total * kept + tl.sum(weight, 1)
        summed = summed * kept[:, None] + tl.dot(weight.to(compressed.dtype), compressed)
        top = higher
    tl.store(output + head[:, None] * CKV + wide, summed / total[:, None])
    tl.store(lse + head, top + tl.log2(total))


def run(q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, sm_scale, output, lse):
    """Write the attention of [total_q, 16, 512 + 64] into output: [total_q, 16, 512] and lse: [total_q, 16]."""
    total, heads, ckv = q_nope.shape
    query = torch.arange(total, device=q_nope.device, dtype=torch.int32)
    owner = torch.searchsorted(qo_indptr[1:], query, right=True, out_int32=True)
    _prefill[(total,)](
        q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, owner, sm_scale * LOG2_E, output, lse,
        HEADS=heads, CKV=ckv, KPE=q_pe.shape[2], BLOCK=32, num_warps=8, num_stages=2,
    )  # fmt: skip
