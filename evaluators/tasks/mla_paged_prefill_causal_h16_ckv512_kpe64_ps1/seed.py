"""Causal prefill attention over a compressed paged cache, the plain way: tiles, with a running maximum and sum."""

import math

import torch

ROWS, COLS = 1024, 1024


def run(q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, sm_scale, output, lse):
    """Write the attention of [total_q, 16, 512 + 64] into output: [total_q, 16, 512] and lse: [total_q, 16]."""
    q_edges, kv_edges = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(q_edges) - 1):
        mine = kv_indices[kv_edges[sequence] : kv_edges[sequence + 1]].long()
        ckv, kpe = ckv_cache[mine].squeeze(1), kpe_cache[mine].squeeze(1)
        offset = len(mine) - (q_edges[sequence + 1] - q_edges[sequence])
        for begin in range(q_edges[sequence], q_edges[sequence + 1], ROWS):
            end = min(begin + ROWS, q_edges[sequence + 1])
            position = torch.arange(begin, end, device=ckv.device) - q_edges[sequence] + offset
            out, logsum = _rows(q_nope[begin:end], q_pe[begin:end], ckv, kpe, position, sm_scale)
            output[begin:end] = out
            lse[begin:end] = logsum


def _rows(nope, rope, ckv, kpe, position, sm_scale):
    """Return the attention of queries [rows, 16, ...] that see the tokens up to position: [rows]."""
    rows, heads, dim = nope.shape
    nope, rope = nope.float().reshape(-1, dim), rope.float().reshape(rows * heads, -1)
    last = position.repeat_interleave(heads)[:, None]
    top = torch.full((rows * heads, 1), -math.inf, device=ckv.device)
    total, summed = torch.zeros_like(top), torch.zeros_like(nope)
    for first in range(0, int(position[-1]) + 1, COLS):
        block = ckv[first : first + COLS].float()
        scores = torch.addmm(nope @ block.T, rope, kpe[first : first + COLS].float().T)
        scores *= sm_scale / math.log(2.0)
        scores.masked_fill_(torch.arange(first, first + len(block), device=ckv.device) > last, -math.inf)
        higher = torch.maximum(top, scores.amax(dim=1, keepdim=True))
        weights, kept = torch.exp2(scores - higher), torch.exp2(top - higher)
        total = total * kept + weights.sum(dim=1, keepdim=True)
        summed = summed * kept + weights @ block
        top = higher
    return (summed / total).view(rows, heads, dim), (top + torch.log2(total)).view(rows, heads)
