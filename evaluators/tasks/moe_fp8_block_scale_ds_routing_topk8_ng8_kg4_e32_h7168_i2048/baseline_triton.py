"""Our own Triton baseline for Hopper: routing, grouped 8-bit products and the weighted sum in six launches, no waiting.

The chosen pairs of token and local expert are laid out by expert, each expert's rows from a multiple of the tile's
height on. The host never learns how many there are: grids are as large as they may be, and tiles without rows end at
once. The inner product is kept in bfloat16.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _moe_route(
    logits, bias, offset, scaling, chosen, weight, counts,
    EXPERTS: tl.constexpr, LOCAL: tl.constexpr,
):  # fmt: skip
    """Route one token: write its 8 choices (local number, or -1) and weights; count the rows of each local expert."""
    token = tl.program_id(0)
    size: tl.constexpr = EXPERTS // 8
    expert = tl.arange(0, EXPERTS)
    score = tl.sigmoid(tl.load(logits + token * EXPERTS + expert))
    ranked = tl.reshape(score + tl.load(bias + expert).to(tl.float32), [8, size])
    first = tl.max(ranked, 1)
    lane = tl.arange(0, size)[None, :]
    without = tl.where(lane == tl.argmax(ranked, 1)[:, None], float("-inf"), ranked)
    standing = first + tl.max(without, 1)
    group = tl.arange(0, 8)
    kept = tl.zeros([8], tl.int32)
    for _ in range(4):
        best = tl.argmax(standing, 0)
        kept = tl.where(group == best, 1, kept)
        standing = tl.where(group == best, float("-inf"), standing)
    ranked = tl.reshape(tl.where(kept[:, None] != 0, ranked, float("-inf")), [EXPERTS])
    place = tl.arange(0, 8)
    mine, share = tl.zeros([8], tl.int32), tl.zeros([8], tl.float32)
    for turn in range(8):
        best = tl.argmax(ranked, 0)
        mine = tl.where(place == turn, best, mine)
        share = tl.where(place == turn, tl.sum(tl.where(expert == best, score, 0.0), 0), share)
        ranked = tl.where(expert == best, float("-inf"), ranked)
    share = share / (tl.sum(share, 0) + 1e-20) * scaling
    here = (mine >= offset) & (mine < offset + LOCAL)
    tl.store(chosen + token * 8 + place, tl.where(here, mine - offset, -1))
    tl.store(weight + token * 8 + place, share)
    tl.atomic_add(counts + tl.where(here, mine - offset, 0), 1, mask=here)


@triton.jit
def _moe_offsets(counts, cursor, tile_expert, tiles, most, LOCAL: tl.constexpr, ROWS: tl.constexpr):
    """Lay the experts out one after the other, in whole tiles; write which expert each tile belongs to."""
    expert = tl.arange(0, LOCAL)
    needed = (tl.load(counts + expert) + ROWS - 1) // ROWS
    ends = tl.cumsum(needed, 0)
    tl.store(cursor + expert, (ends - needed) * ROWS)
    tl.store(tiles, tl.sum(needed, 0))
    for start in range(0, most, 128):
        tile = start + tl.arange(0, 128)
        owner = tl.sum((tile[:, None] >= ends[None, :]).to(tl.int32), 1)
        tl.store(tile_expert + tile, owner, mask=tile < most)


@triton.jit
def _moe_scatter(chosen, cursor, row_token, pair_row, pairs, BLOCK: tl.constexpr):
    """Give every local pair its row. Rows that no pair has keep the token -1."""
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(chosen + pair, mask=pair < pairs, other=-1)
    here = expert >= 0
    row = tl.atomic_add(cursor + tl.where(here, expert, 0), 1, mask=here)
    tl.store(row_token + row, pair // 8, mask=here)
    tl.store(pair_row + pair, tl.where(here, row, -1), mask=pair < pairs)


@triton.jit
def _moe_up_gate(
    states, state_scale, weights, weight_scale, row_token, tile_expert, tiles, inner, tokens,
    HIDDEN: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    tile, strip = tl.program_id(1), tl.program_id(0)
    if tile >= tl.load(tiles):
        return
    expert = tl.load(tile_expert + tile).to(tl.int64)
    row = tile * ROWS + tl.arange(0, ROWS)
    token = tl.load(row_token + row)
    valid = token >= 0
    token = tl.where(valid, token, 0).to(tl.int64)
    column, depth = strip * COLS + tl.arange(0, COLS), tl.arange(0, WIDTH)
    blocks: tl.constexpr = HIDDEN // WIDTH
    left = states + token[:, None] * HIDDEN + depth[None, :]
    right = weights + expert * (2 * INNER * HIDDEN) + column[None, :] * HIDDEN + depth[:, None]
    scale = weight_scale + (expert * (2 * INNER // WIDTH) + strip * COLS // WIDTH) * blocks
    up, gate = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS, COLS], tl.float32)
    for block in range(blocks):
        a = tl.load(left + block * WIDTH, mask=valid[:, None], other=0.0)
        by_row = tl.load(state_scale + block * tokens + token)[:, None]
        up += tl.dot(a, tl.load(right + block * WIDTH)) * (by_row * tl.load(scale + block))
        b = tl.load(right + INNER * HIDDEN + block * WIDTH)
        gate += tl.dot(a, b) * (by_row * tl.load(scale + INNER // WIDTH * blocks + block))
    product = (up * gate * tl.sigmoid(gate)).to(tl.bfloat16)
    tl.store(inner + row[:, None].to(tl.int64) * INNER + column[None, :], product)


@triton.jit
def _moe_down(
    inner, weights, weight_scale, tile_expert, tiles, result,
    HIDDEN: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    tile, strip = tl.program_id(1), tl.program_id(0)
    if tile >= tl.load(tiles):
        return
    expert = tl.load(tile_expert + tile).to(tl.int64)
    row = tile * ROWS + tl.arange(0, ROWS)
    column, depth = strip * COLS + tl.arange(0, COLS), tl.arange(0, WIDTH)
    blocks: tl.constexpr = INNER // WIDTH
    left = inner + row[:, None].to(tl.int64) * INNER + depth[None, :]
    right = weights + expert * (HIDDEN * INNER) + column[None, :] * INNER + depth[:, None]
    scale = weight_scale + (expert * (HIDDEN // WIDTH) + strip * COLS // WIDTH) * blocks
    total = tl.zeros([ROWS, COLS], tl.float32)
    for block in range(blocks):
        part = tl.dot(tl.load(left + block * WIDTH), tl.load(right + block * WIDTH).to(tl.bfloat16))
        total += part * tl.load(scale + block)
    tl.store(result + row[:, None].to(tl.int64) * HIDDEN + column[None, :], total.to(tl.bfloat16))


@triton.jit
def _moe_combine(result, pair_row, weight, output, HIDDEN: tl.constexpr, COLS: tl.constexpr):
    """Add up one token's rows, each with its weight."""
    token, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLS + tl.arange(0, COLS)
    total = tl.zeros([COLS], tl.float32)
    for place in range(8):
        row = tl.load(pair_row + token * 8 + place).to(tl.int64)
        if row >= 0:
            part = tl.load(result + row * HIDDEN + column, mask=column < HIDDEN, other=0.0)
            total += part.to(tl.float32) * tl.load(weight + token * 8 + place)
    tl.store(output + token * HIDDEN + column, total.to(tl.bfloat16), mask=column < HIDDEN)


def _moe_tiles(tokens):
    """Return the tile's rows, and the columns of the first and the second product, for so many tokens."""
    if tokens <= 128:
        return 16, 64, 64
    return (64, 128, 128) if tokens <= 2048 else (128, 128, 128)


def baseline(
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
):
    """Return output: [seq_len, hidden] bfloat16."""
    tokens, experts = routing_logits.shape
    local, hidden, inner_size = gemm2_weights.shape
    width = hidden // hidden_states_scale.shape[0]
    rows, cols_up, cols_down = _moe_tiles(tokens)
    cols_up, cols_down = min(cols_up, width), min(cols_down, width)
    most = min(tokens * 8, triton.cdiv(tokens * 8, rows) + local)
    device = hidden_states.device
    chosen = torch.empty(tokens, 8, dtype=torch.int32, device=device)
    weight = torch.empty(tokens, 8, dtype=torch.float32, device=device)
    pair_row = torch.empty(tokens * 8, dtype=torch.int32, device=device)
    counts, cursor, tiles = torch.zeros(2 * local + 1, dtype=torch.int32, device=device).split([local, local, 1])
    tile_expert = torch.empty(most, dtype=torch.int32, device=device)
    row_token = torch.full((most * rows,), -1, dtype=torch.int32, device=device)
    inner = torch.empty(most * rows, inner_size, dtype=torch.bfloat16, device=device)
    result = torch.empty(most * rows, hidden, dtype=torch.bfloat16, device=device)
    output = torch.empty(tokens, hidden, dtype=torch.bfloat16, device=device)

    _moe_route[(tokens,)](
        routing_logits, routing_bias, local_expert_offset, routed_scaling_factor, chosen, weight, counts,
        EXPERTS=experts, LOCAL=local, num_warps=2,
    )  # fmt: skip
    _moe_offsets[(1,)](counts, cursor, tile_expert, tiles, most, LOCAL=local, ROWS=rows)
    _moe_scatter[(triton.cdiv(tokens * 8, 256),)](chosen, cursor, row_token, pair_row, tokens * 8, BLOCK=256)
    sizes = {"HIDDEN": hidden, "INNER": inner_size, "WIDTH": width, "ROWS": rows}
    warps = 8 if rows == 128 else 4
    _moe_up_gate[(inner_size // cols_up, most)](
        hidden_states, hidden_states_scale, gemm1_weights, gemm1_weights_scale, row_token, tile_expert, tiles, inner,
        tokens, **sizes, COLS=cols_up, num_warps=warps, num_stages=3,
    )  # fmt: skip
    _moe_down[(hidden // cols_down, most)](
        inner, gemm2_weights, gemm2_weights_scale, tile_expert, tiles, result,
        **sizes, COLS=cols_down, num_warps=warps, num_stages=3,
    )  # fmt: skip
    _moe_combine[(tokens, triton.cdiv(hidden, 1024))](result, pair_row, weight, output, HIDDEN=hidden, COLS=1024)
    return output
