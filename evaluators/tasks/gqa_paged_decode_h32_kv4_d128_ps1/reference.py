"""Decode attention over a paged cache with grouped heads, in float32."""

import math
from itertools import pairwise

import torch


def inputs(axes, params, seed):
    """Return queries, a pool of keys and values, and ragged sequences in it. `layout`: see `_slots`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    rows, pages, dim = axes["batch_size"], axes["num_pages"], axes["head_dim"]

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device, dtype=torch.bfloat16)

    at_least = torch.ones(rows, dtype=torch.int64, device=device)
    lengths = _lengths(axes["num_kv_indices"], rows, at_least, generator, device)
    return {
        "q": normal(rows, axes["num_qo_heads"], dim),
        "k_cache": normal(pages, axes["page_size"], axes["num_kv_heads"], dim),
        "v_cache": normal(pages, axes["page_size"], axes["num_kv_heads"], dim),
        "kv_indptr": _indptr(lengths),
        "kv_indices": _slots(lengths, pages, params.get("layout", "pool"), generator, device),
        "sm_scale": 1.0 / math.sqrt(dim),
    }


def reference(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    """Return output: [batch_size, heads, dim] bfloat16 and lse: [batch_size, heads] float32, one sequence at a time."""
    rows, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    queries = q.float().view(rows, kv_heads, heads // kv_heads, dim)
    output = torch.empty(rows, heads, dim, dtype=torch.float32, device=q.device)
    lse = torch.empty(rows, heads, dtype=torch.float32, device=q.device)
    for row, (start, end) in enumerate(pairwise(kv_indptr.tolist())):
        slots = kv_indices[start:end].long()
        keys, values = k_cache[slots, 0].float(), v_cache[slots, 0].float()
        logits = torch.einsum("hgd,lhd->hgl", queries[row], keys) * sm_scale
        lse[row] = torch.logsumexp(logits, dim=-1).flatten() / math.log(2.0)
        output[row] = torch.einsum("hgl,lhd->hgd", torch.softmax(logits, dim=-1), values).reshape(heads, dim)
    return output.to(torch.bfloat16), lse


def baseline(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    """Return the same by padding all sequences to the longest, as a user would write it in eager torch."""
    rows, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    lengths = kv_indptr[1:] - kv_indptr[:-1]
    place = torch.arange(int(lengths.max()), device=q.device)
    valid = place < lengths[:, None]
    token = (kv_indptr[:-1, None] + place).clamp(max=kv_indices.numel() - 1)
    slots = kv_indices[token.long()].long()
    keys, values = k_cache[slots, 0].float(), v_cache[slots, 0].float()
    queries = q.float().view(rows, kv_heads, heads // kv_heads, dim)
    logits = torch.matmul(queries, keys.permute(0, 2, 3, 1)) * sm_scale
    logits = logits.masked_fill(~valid[:, None, None, :], -math.inf)
    output = torch.matmul(torch.softmax(logits, dim=-1), values.transpose(1, 2))
    lse = torch.logsumexp(logits, dim=-1) / math.log(2.0)
    return output.reshape(rows, heads, dim).to(torch.bfloat16), lse.reshape(rows, heads)


def floor(axes):
    """Each key and value of a sequence is read once, with the queries; two products over every token."""
    rows, tokens, heads, dim = axes["batch_size"], axes["num_kv_indices"], axes["num_qo_heads"], axes["head_dim"]
    cache = 2 * 2 * tokens * axes["num_kv_heads"] * dim + 4 * (tokens + axes["len_indptr"])
    return {"bytes": cache + rows * heads * (4 * dim + 4), "operations": 4 * tokens * heads * dim}


def _lengths(total, count, floor_each, generator, device):
    """Return `count` ragged lengths, each at least its item of `floor_each`, that sum to `total`: [count] int64."""
    weights = torch.exp(0.8 * torch.randn(count, generator=generator, device=device))
    spare = total - int(floor_each.sum())
    edges = torch.round(torch.cumsum(weights, 0) / weights.sum() * spare).long()
    edges[-1] = spare
    return floor_each + torch.diff(edges, prepend=edges.new_zeros(1))


def _slots(lengths, pages, layout, generator, device):
    """Return the distinct slots of all tokens, sequence by sequence: [sum of lengths] int32, in [1, pages).

    `pool`: as a serving engine hands them out, a run for each prompt, then one slot in turn to every sequence that
    still decodes. `permuted`: no order at all.
    """
    total = int(lengths.sum())
    if layout == "permuted":
        return (torch.randperm(pages - 1, generator=generator, device=device)[:total] + 1).int()
    prompts = (lengths * (0.5 + 0.5 * torch.rand(len(lengths), generator=generator, device=device))).long()
    row = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
    token = torch.arange(total, device=device)
    place = token - torch.repeat_interleave(torch.cumsum(lengths, 0) - lengths, lengths)
    step = place - prompts[row]
    turn = torch.where(step < 0, token, total + step * len(lengths) + row)
    order = torch.empty_like(token)
    order[torch.argsort(turn)] = token
    first = 1 + int(torch.randint(pages - total, (1,), generator=generator, device=device))
    return (first + order).int()


def _indptr(lengths):
    return torch.cat([lengths.new_zeros(1), torch.cumsum(lengths, 0)]).int()
