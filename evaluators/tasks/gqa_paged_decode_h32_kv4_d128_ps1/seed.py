"""Decode attention over a paged cache, the plain way: all tokens of all sequences in one long list."""

import math

import torch


def run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale, output, lse):
    """Write the attention of q: [batch, 32, 128] into output: [batch, 32, 128] and lse: [batch, 32]."""
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    counts = (kv_indptr[1:] - kv_indptr[:-1]).long()
    owner = torch.repeat_interleave(torch.arange(batch, device=q.device), counts)
    slots = kv_indices.long()
    keys, values = k_cache[slots, 0].float(), v_cache[slots, 0].float()

    grouped = q.float().view(batch, kv_heads, heads // kv_heads, dim)
    scores = (grouped[owner] * keys[:, :, None, :]).sum(dim=-1).view(-1, heads) * (sm_scale / math.log(2.0))
    top = torch.full((batch, heads), -math.inf, device=q.device)
    top.scatter_reduce_(0, owner[:, None].expand_as(scores), scores, "amax")
    weights = torch.exp2(scores - top[owner])
    total = torch.zeros_like(top).index_add_(0, owner, weights)

    weighted = weights.view(-1, kv_heads, heads // kv_heads, 1) * values[:, :, None, :]
    summed = torch.zeros(batch, heads, dim, device=q.device).index_add_(0, owner, weighted.reshape(-1, heads, dim))
    output.copy_(summed / total[..., None])
    lse.copy_(top + torch.log2(total))
