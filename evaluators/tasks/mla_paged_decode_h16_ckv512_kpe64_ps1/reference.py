"""Decode attention over a compressed paged cache (matrix-absorbed MLA), in float32."""

import math
from itertools import pairwise

import torch

SM_SCALE = (0.1 * math.log(40.0) + 1.0) ** 2 / math.sqrt(192.0)
"""1 / sqrt(192), the heads' size before absorption, times YaRN's square for a context 40 times as long."""


def inputs(axes, params, seed):
    """Return queries, a pool of compressed keys, and ragged sequences in it. `layout`: see `_slots`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    rows, pages, heads = axes["batch_size"], axes["num_pages"], axes["num_qo_heads"]

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device, dtype=torch.bfloat16)

    at_least = torch.ones(rows, dtype=torch.int64, device=device)
    lengths = _lengths(axes["num_kv_indices"], rows, at_least, generator, device)
    return {
        "q_nope": normal(rows, heads, axes["head_dim_ckv"]),
        "q_pe": normal(rows, heads, axes["head_dim_kpe"]),
        "ckv_cache": normal(pages, axes["page_size"], axes["head_dim_ckv"]),
        "kpe_cache": normal(pages, axes["page_size"], axes["head_dim_kpe"]),
        "kv_indptr": _indptr(lengths),
        "kv_indices": _slots(lengths, pages, params.get("layout", "pool"), generator, device),
        "sm_scale": SM_SCALE,
    }


def reference(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale):
    """Return output: [batch_size, heads, 512] bfloat16 and lse: [batch_size, heads] float32, sequence by sequence."""
    output = torch.empty(q_nope.shape, dtype=torch.float32, device=q_nope.device)
    lse = torch.empty(q_nope.shape[:2], dtype=torch.float32, device=q_nope.device)
    for row, (start, end) in enumerate(pairwise(kv_indptr.tolist())):
        slots = kv_indices[start:end].long()
        compressed, rotary = ckv_cache[slots, 0].float(), kpe_cache[slots, 0].float()
        logits = (q_nope[row].float() @ compressed.T + q_pe[row].float() @ rotary.T) * sm_scale
        lse[row] = torch.logsumexp(logits, dim=-1) / math.log(2.0)
        output[row] = torch.softmax(logits, dim=-1) @ compressed
    return output.to(torch.bfloat16), lse


def baseline(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale):
    """Return the same by padding all sequences to the longest, as a user would write it in eager torch."""
    lengths = kv_indptr[1:] - kv_indptr[:-1]
    place = torch.arange(int(lengths.max()), device=q_nope.device)
    token = (kv_indptr[:-1, None] + place).clamp(max=kv_indices.numel() - 1)
    slots = kv_indices[token.long()].long()
    compressed = ckv_cache[slots, 0].float()
    keys = torch.cat([compressed, kpe_cache[slots, 0].float()], dim=-1)
    queries = torch.cat([q_nope, q_pe], dim=-1).float()
    logits = torch.bmm(queries, keys.transpose(1, 2)) * sm_scale
    logits = logits.masked_fill((place >= lengths[:, None])[:, None, :], -math.inf)
    output = torch.bmm(torch.softmax(logits, dim=-1), compressed)
    return output.to(torch.bfloat16), torch.logsumexp(logits, dim=-1) / math.log(2.0)


def floor(axes):
    """Each compressed key of a sequence is read once, with the queries; two products over every token."""
    rows, tokens, heads = axes["batch_size"], axes["num_kv_indices"], axes["num_qo_heads"]
    ckv, kpe = axes["head_dim_ckv"], axes["head_dim_kpe"]
    cache = 2 * tokens * (ckv + kpe) + 4 * (tokens + axes["len_indptr"])
    queries = rows * heads * (2 * (2 * ckv + kpe) + 4)
    return {"bytes": cache + queries, "operations": 2 * tokens * heads * (2 * ckv + kpe)}


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
