"""A rank's share of a mixture of experts in Triton, the plain way: routing in torch, then two products by tiles."""

import torch
import triton
import triton.language as tl

ROWS, COLS = 32, 64


@triton.jit
def _up_gate(
    states, state_scale, weights, weight_scale, token, tile_expert, tile_first, tile_end, inner, tokens,
    HIDDEN: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """One tile of up * silu(gate): ROWS pairs of one expert, COLS of the INNER columns."""
    expert = tl.load(tile_expert + tl.program_id(0)).to(tl.int64)
    pair = tl.load(tile_first + tl.program_id(0)) + tl.arange(0, ROWS)
    valid = pair < tl.load(tile_end + tl.program_id(0))
    row = tl.load(token + pair, mask=valid, other=0).to(tl.int64)
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)
    depth = tl.arange(0, WIDTH)
    blocks: tl.constexpr = HIDDEN // WIDTH
    scale_row = weight_scale + expert * (2 * INNER // WIDTH) * blocks + tl.program_id(1) * COLS // WIDTH * blocks
    matrix = weights + expert * 2 * INNER * HIDDEN + column[:, None] * HIDDEN + depth
    up, gate = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS, COLS], tl.float32)
    for block in range(blocks):
        state = tl.load(states + row[:, None] * HIDDEN + block * WIDTH + depth, mask=valid[:, None], other=0.0)
        state = state.to(tl.bfloat16)
        scale = tl.load(state_scale + block * tokens + row, mask=valid, other=0.0)[:, None]
        first = tl.load(matrix + block * WIDTH).to(tl.bfloat16)
        second = tl.load(matrix + INNER * HIDDEN + block * WIDTH).to(tl.bfloat16)
        up += tl.dot(state, tl.trans(first)) * scale * tl.load(scale_row + block)
        gate += tl.dot(state, tl.trans(second)) * scale * tl.load(scale_row + INNER // WIDTH * blocks + block)
    product = up * gate * tl.sigmoid(gate)
    tl.store(inner + pair[:, None].to(tl.int64) * INNER + column, product, mask=valid[:, None])


@triton.jit
def _down(
    inner, weights, weight_scale, token, share, tile_expert, tile_first, tile_end, summed,
    HIDDEN: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Add one tile's share to the output: ROWS pairs of one expert, COLS of the HIDDEN columns."""
    expert = tl.load(tile_expert + tl.program_id(0)).to(tl.int64)
    pair = tl.load(tile_first + tl.program_id(0)) + tl.arange(0, ROWS)
    valid = pair < tl.load(tile_end + tl.program_id(0))
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)
    depth = tl.arange(0, WIDTH)
    blocks: tl.constexpr = INNER // WIDTH
    scale_row = weight_scale + expert * (HIDDEN // WIDTH) * blocks + tl.program_id(1) * COLS // WIDTH * blocks
    matrix = weights + expert * HIDDEN * INNER + column[:, None] * INNER + depth
    row = inner + pair[:, None].to(tl.int64) * INNER + depth
    total = tl.zeros([ROWS, COLS], tl.float32)
    for block in range(blocks):
        product = tl.load(row + block * WIDTH, mask=valid[:, None], other=0.0)
        part = tl.load(matrix + block * WIDTH).to(tl.bfloat16)
        total += tl.dot(product, tl.trans(part)) * tl.load(scale_row + block)
    target = tl.load(token + pair, mask=valid, other=0).to(tl.int64)
    total *= tl.load(share + pair, mask=valid, other=0.0)[:, None]
    tl.atomic_add(summed + target[:, None] * HIDDEN + column, total, mask=valid[:, None])


def run(
    routing_logits,
    routing_bias,
    hidden_states,
    hidden_states_scale,
    gemm1_weights,
    gemm1_weights_scale,
    gemm2_weights,
    gemm2_weights_scale,
    local_expert_offset,
    routed_scaling_factor,
    output,
):
    """Write the experts' weighted sum for hidden_states: [tokens, hidden] into output: [tokens, hidden]."""
    local, hidden, inner_size = gemm2_weights.shape
    width = hidden // hidden_states_scale.shape[0]
    expert, token, share = _pairs(routing_logits, routing_bias, local_expert_offset, local)
    share = share * routed_scaling_factor
    summed = torch.zeros(output.shape, dtype=torch.float32, device=output.device)
    counts = torch.bincount(expert, minlength=local)
    tiles = (counts + ROWS - 1) // ROWS
    count = int(tiles.sum())
    if count:
        tile_expert = torch.repeat_interleave(torch.arange(local, device=counts.device), tiles)
        ends = counts.cumsum(0)
        within = torch.arange(count, device=counts.device) - (tiles.cumsum(0) - tiles)[tile_expert]
        table = (tile_expert, (ends - counts)[tile_expert] + within * ROWS, ends[tile_expert])
        inner = torch.empty(len(token), inner_size, dtype=torch.bfloat16, device=output.device)
        sizes = {"HIDDEN": hidden, "INNER": inner_size, "WIDTH": width, "ROWS": ROWS, "COLS": min(COLS, width)}
        _up_gate[(count, inner_size // sizes["COLS"])](
            hidden_states, hidden_states_scale, gemm1_weights, gemm1_weights_scale, token, *table, inner,
            hidden_states.shape[0], **sizes,
        )  # fmt: skip
        _down[(count, hidden // sizes["COLS"])](
            inner, gemm2_weights, gemm2_weights_scale, token, share, *table, summed, **sizes
        )
    output.copy_(summed)


def _pairs(logits, bias, offset, local):
    """Return expert (from 0), token and weight of each local choice, sorted by expert."""
    tokens, experts = logits.shape
    score = logits.sigmoid()
    ranked = (score + bias).view(tokens, 8, experts // 8)
    group = ranked.topk(2).values.sum(-1).topk(4).indices
    keep = torch.zeros(tokens, 8, 1, device=logits.device).scatter(1, group[:, :, None], 1.0)
    choice = torch.where(keep > 0, ranked, -torch.inf).flatten(1).topk(8).indices
    weight = score.gather(1, choice)
    weight = weight / (weight.sum(1, keepdim=True) + 1e-20)
    here = (choice >= offset) & (choice < offset + local)
    token, place = here.nonzero(as_tuple=True)
    expert, order = (choice[token, place] - offset).sort(stable=True)
    return expert, token[order], weight[token, place][order]
