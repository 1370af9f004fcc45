"""A rank's share of a mixture of experts, the plain way: tokens sorted by expert, products block by block."""

import torch

GROUPS = 8


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
    local = gemm1_weights.shape[0]
    share = _shares(routing_logits, routing_bias) * routed_scaling_factor
    share = share[:, local_expert_offset : local_expert_offset + local]
    expert, token = torch.nonzero(share.T, as_tuple=True)
    edges = torch.searchsorted(expert, torch.arange(local + 1, device=expert.device)).tolist()
    summed = torch.zeros(output.shape, dtype=torch.float32, device=output.device)
    for number in range(local):
        rows = token[edges[number] : edges[number + 1]]
        if len(rows) == 0:
            continue
        up_gate = _product(
            hidden_states[rows].to(torch.bfloat16), hidden_states_scale[:, rows], gemm1_weights[number],
            gemm1_weights_scale[number],
        )  # fmt: skip
        up, gate = up_gate.tensor_split(2, dim=1)
        inner = (up * gate / (1.0 + torch.exp(-gate))).to(torch.bfloat16)
        ones = torch.ones(gemm2_weights_scale.shape[2], len(rows), device=inner.device)
        result = _product(inner, ones, gemm2_weights[number], gemm2_weights_scale[number])
        summed[rows] += result * share[rows, number, None]
    output.copy_(summed)


def _shares(logits, bias):
    """Return each expert's weight for each token, 0 where it is not chosen: [tokens, experts]."""
    tokens, experts = logits.shape
    score = 1.0 / (1.0 + torch.exp(-logits))
    standing = (score + bias.float()).view(tokens, GROUPS, -1)
    best = standing.sort(dim=2, descending=True).values[:, :, :2].sum(dim=2)
    rank = best.argsort(dim=1, descending=True).argsort(dim=1)
    standing = torch.where((rank < 4)[:, :, None], standing, -torch.inf).view(tokens, experts)
    rank = standing.argsort(dim=1, descending=True).argsort(dim=1)
    score = torch.where(rank < 8, score, 0.0)
    return score / (score.sum(dim=1, keepdim=True) + 1e-20)


def _product(rows, row_scale, matrix, matrix_scale):
    """Return rows @ matrix.T in float32: rows [n, k] bfloat16, row_scale [k / 128, n], matrix [m, k] 8-bit floats."""
    blocks = row_scale.shape[0]
    width = rows.shape[1] // blocks
    tall = matrix.shape[0] // matrix_scale.shape[0]
    total = torch.zeros(rows.shape[0], matrix.shape[0], device=rows.device)
    for block in range(blocks):
        columns = slice(block * width, (block + 1) * width)
        part = rows[:, columns].float() @ matrix[:, columns].float().T
        total += part * row_scale[block][:, None] * matrix_scale[:, block].repeat_interleave(tall)
    return total
