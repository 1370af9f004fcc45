"""Decode attention over a compressed paged cache, the plain way: blocks of tokens, with a running maximum and sum."""

import math

import torch

BLOCK = 256


def run(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale, output, lse):
    """Write the attention of [batch, 16, 512 + 64] into output: [batch, 16, 512] and lse: [batch, 16]."""
    batch, heads, dim = q_nope.shape
    device = q_nope.device
    start, end = kv_indptr[:-1, None].long(), kv_indptr[1:, None].long()
    nope, rope = q_nope.float(), q_pe.float()
    top = torch.full((batch, heads, 1), -math.inf, device=device)
    total = torch.zeros(batch, heads, 1, device=device)
    summed = torch.zeros(batch, heads, dim, device=device)
    for first in range(0, int((end - start).max()), BLOCK):
        token = start + first + torch.arange(BLOCK, device=device)
        slots = kv_indices[torch.minimum(token, end - 1)].long()
        block = ckv_cache[slots].squeeze(2).float()
        scores = nope @ block.mT + rope @ kpe_cache[slots].squeeze(2).float().mT
        scores = torch.where((token < end)[:, None, :], scores * (sm_scale / math.log(2.0)), -math.inf)
        higher = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        weights, kept = torch.exp2(scores - higher), torch.exp2(top - higher)
        total = total * kept + weights.sum(dim=-1, keepdim=True)
        summed = summed * kept + weights @ block
        top = higher
    output.copy_(summed / total)
    lse.copy_((top + torch.log2(total)).squeeze(-1))
