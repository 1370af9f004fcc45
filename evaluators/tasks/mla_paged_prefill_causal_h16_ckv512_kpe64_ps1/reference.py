"""Causal prefill attention over a compressed paged cache (matrix-absorbed MLA), in float32."""

import math
from itertools import pairwise

import torch

SM_SCALE = (0.1 * math.log(40.0) + 1.0) ** 2 / math.sqrt(192.0)
"""1 / sqrt(192), the heads' size before absorption, times YaRN's square for a context 40 times as long."""
QUERIES_AT_ONCE = 512
"""Bounds the logits that are held: heads x this x the longest sequence."""


def inputs(axes, params, seed):
    """Return queries, a pool of compressed keys, and ragged sequences in it. `layout`: see `_slots`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    total, pages, heads = axes["total_q"], axes["num_pages"], axes["num_qo_heads"]
    sequences = axes["len_indptr"] - 1

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device, dtype=torch.bfloat16)

    at_least = torch.ones(sequences, dtype=torch.int64, device=device)
    queries = _lengths(total, sequences, at_least, generator, device)
    tokens = _lengths(axes["num_kv_indices"], sequences, queries, generator, device)
    return {
        "q_nope": normal(total, heads, axes["head_dim_ckv"]),
        "q_pe": normal(total, heads, axes["head_dim_kpe"]),
        "ckv_cache": normal(pages, axes["page_size"], axes["head_dim_ckv"]),
        "kpe_cache": normal(pages, axes["page_size"], axes["head_dim_kpe"]),
        "qo_indptr": _indptr(queries),
        "kv_indptr": _indptr(tokens),
        "kv_indices": _slots(tokens, pages, params.get("layout", "pool"), generator, device),
        "sm_scale": SM_SCALE,
    }


def reference(q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, sm_scale):
    """Return output: [total_q, heads, 512] bfloat16 and lse: [total_q, heads] float32, some queries at a time."""
    output, lse = _empty(q_nope)
    bounds = zip(pairwise(qo_indptr.tolist()), pairwise(kv_indptr.tolist()), strict=True)
    for (first, last), (start, end) in bounds:
        slots = kv_indices[start:end].long()
        compressed, rotary = ckv_cache[slots, 0].float(), kpe_cache[slots, 0].float()
        for begin in range(first, last, QUERIES_AT_ONCE):
            rows = slice(begin, min(begin + QUERIES_AT_ONCE, last))
            logits = q_nope[rows].float() @ compressed.T + q_pe[rows].float() @ rotary.T
            position = (
                torch.arange(rows.start, rows.stop, device=q_nope.device) - first + (end - start) - (last - first)
            )
            hidden = torch.arange(end - start, device=q_nope.device) > position[:, None]
            logits = (logits * sm_scale).masked_fill_(hidden[:, None, :], -math.inf)
            lse[rows] = torch.logsumexp(logits, dim=-1) / math.log(2.0)
            output[rows] = (torch.softmax(logits, dim=-1) @ compressed).to(torch.bfloat16)
    return output, lse


def baseline(q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, sm_scale):
    """Return the same as a user would write it in eager torch: one sequence after the other, all heads at once."""
    output, lse = _empty(q_nope)
    heads = q_nope.shape[1]
    queries = torch.cat([q_nope, q_pe], dim=-1)
    for sequence in range(qo_indptr.numel() - 1):
        first, last = int(qo_indptr[sequence]), int(qo_indptr[sequence + 1])
        slots = kv_indices[int(kv_indptr[sequence]) : int(kv_indptr[sequence + 1])].long()
        compressed = ckv_cache[slots, 0].float()
        keys = torch.cat([compressed, kpe_cache[slots, 0].float()], dim=-1)
        step = max(1, (1 << 28) // (heads * len(slots)))
        for begin in range(first, last, step):
            end = min(begin + step, last)
            seen = len(slots) - last + end
            logits = torch.einsum("qhd,kd->qhk", queries[begin:end].float(), keys[:seen]) * sm_scale
            future = torch.ones(end - begin, seen, dtype=torch.bool, device=q_nope.device).triu(seen - end + begin + 1)
            logits.masked_fill_(future[:, None, :], -math.inf)
            lse[begin:end] = torch.logsumexp(logits, dim=-1) / math.log(2.0)
            output[begin:end] = torch.einsum("qhk,kd->qhd", torch.softmax(logits, dim=-1), compressed[:seen]).bfloat16()
    return output, lse


def floor(axes):
    """Each compressed key is read once, with the queries; the operations are those of the cheapest ragged lengths."""
    queries, tokens, heads = axes["total_q"], axes["num_kv_indices"], axes["num_qo_heads"]
    ckv, kpe, sequences = axes["head_dim_ckv"], axes["head_dim_kpe"], axes["len_indptr"] - 1
    # Sequences of equal length see least of themselves, and every token before the queries is seen once or more.
    seen = int(queries * (queries / sequences + 1) / 2) + tokens - queries
    cache = 2 * tokens * (ckv + kpe) + 4 * (tokens + 2 * axes["len_indptr"])
    moved = queries * heads * (2 * (2 * ckv + kpe) + 4)
    return {"bytes": cache + moved, "operations": 2 * seen * heads * (2 * ckv + kpe)}


def _empty(q_nope):
    output = torch.empty_like(q_nope)
    return output, torch.empty(q_nope.shape[:2], dtype=torch.float32, device=q_nope.device)


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
