"""One rank's share of a mixture of experts: grouped routing, 8-bit weights with block scales, in float32."""

import torch
import torch.nn.functional as F

GROUPS, KEPT_GROUPS, CHOSEN = 8, 4, 8
ROUTED_SCALING = 2.5
BIAS_MEAN, BIAS_SPREAD = -0.6, 0.03
"""The spread changes who is chosen and leaves each expert a chance; the mean changes the weights where it is let in."""
_MOST_DRAWS = 64


def inputs(axes, params, seed):
    """Return tokens, weights and scales, and a routing that spreads and uses at least one local expert.

    `offset`: the first local expert. `routing`: `spread`; `local`, all choose local experts where the groups allow it;
    `remote`, none does.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(seed)
    tokens, local = axes["seq_len"], axes["num_local_experts"]
    hidden, inner, out = axes["hidden_size"], axes["intermediate_size"], axes["gemm1_out_size"]
    blocks, inner_blocks = axes["num_hidden_blocks"], axes["num_intermediate_blocks"]

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device)

    def eight_bit(*shape):
        made = torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)
        for part in made if len(shape) == 3 else [made]:  # an expert at a time: less memory
            part.copy_(normal(*part.shape).clamp_(-2.0, 2.0))
        return made

    bias = (BIAS_MEAN + BIAS_SPREAD * normal(axes["num_experts"])).to(torch.bfloat16)
    offset = params.get("offset", 0)
    return {
        "routing_logits": _logits(normal, tokens, bias, range(offset, offset + local), params.get("routing", "spread")),
        "routing_bias": bias,
        "hidden_states": eight_bit(tokens, hidden),
        "hidden_states_scale": normal(blocks, tokens),
        "gemm1_weights": eight_bit(local, out, hidden),
        "gemm1_weights_scale": normal(local, axes["num_gemm1_out_blocks"], blocks),
        "gemm2_weights": eight_bit(local, hidden, inner),
        "gemm2_weights_scale": normal(local, blocks, inner_blocks),
        "local_expert_offset": offset,
        "routed_scaling_factor": ROUTED_SCALING,
    }


def _logits(normal, tokens, bias, local, routing):
    """Return routing logits [tokens, experts]: drawn again until a local expert is chosen, unless `remote`."""
    here = slice(local.start, local.stop)
    for _ in range(_MOST_DRAWS):
        logits = normal(tokens, bias.numel())
        if routing != "spread":
            logits[:, here] += 6.0 if routing == "local" else -9.0
        chosen, _ = route(logits, bias, 1.0)
        if routing == "remote" or bool(((chosen >= local.start) & (chosen < local.stop)).any()):
            return logits
    raise ValueError(f"no local expert was chosen in {_MOST_DRAWS} draws")


def route(logits, bias, scaling):
    """Return which experts each token has chosen, [tokens, 8], and with which weight, [tokens, 8] float32."""
    tokens, experts = logits.shape
    scores = torch.sigmoid(logits.float())
    ranked = scores + bias.float()
    grouped = ranked.view(tokens, GROUPS, experts // GROUPS)
    standing = grouped.topk(2, dim=-1).values.sum(dim=-1)
    kept = torch.zeros_like(standing, dtype=torch.bool).scatter_(1, standing.topk(KEPT_GROUPS, dim=-1).indices, True)
    ranked = grouped.masked_fill(~kept[..., None], -torch.inf).view(tokens, experts)
    chosen = ranked.topk(CHOSEN, dim=-1).indices
    weights = scores.gather(1, chosen)
    return chosen, weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * scaling


def reference(
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
    """Return output: [seq_len, hidden] bfloat16, one local expert after the other."""
    chosen, weights = route(routing_logits, routing_bias, routed_scaling_factor)
    states = _dequantised(hidden_states, hidden_states_scale.T)
    output = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for expert in range(gemm1_weights.shape[0]):
        tokens, place = torch.nonzero(chosen == local_expert_offset + expert, as_tuple=True)
        if tokens.numel() == 0:
            continue
        first = _dequantised_matrix(gemm1_weights[expert], gemm1_weights_scale[expert])
        up, gate = (states[tokens] @ first.T).chunk(2, dim=-1)
        second = _dequantised_matrix(gemm2_weights[expert], gemm2_weights_scale[expert])
        result = (F.silu(gate) * up) @ second.T
        output.index_add_(0, tokens, result * weights[tokens, place, None])
    return output.to(torch.bfloat16)


def _dequantised(rows, scale):
    """Return rows [n, blocks * 128] float32 from scales [n, blocks]."""
    blocks = scale.shape[1]
    return (rows.float().view(rows.shape[0], blocks, -1) * scale[..., None]).view(rows.shape)


def _dequantised_matrix(matrix, scale):
    """Return a matrix [a * 128, b * 128] float32 from scales [a, b]."""
    a, b = scale.shape
    blocks = matrix.float().view(a, matrix.shape[0] // a, b, matrix.shape[1] // b)
    return (blocks * scale[:, None, :, None]).view(matrix.shape)


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
    """Return the same as a user would write it in eager torch: weights dequantised to bfloat16, expert by expert."""
    chosen, weights = route(routing_logits, routing_bias, routed_scaling_factor)
    block = hidden_states.shape[1] // hidden_states_scale.shape[0]
    scale = hidden_states_scale.T.repeat_interleave(block, dim=1)
    states = (hidden_states.float() * scale).to(torch.bfloat16)
    output = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    inner = gemm2_weights.shape[2]
    for expert in range(gemm1_weights.shape[0]):
        share = torch.where(chosen == local_expert_offset + expert, weights, 0.0).sum(dim=-1)
        tokens = share.nonzero().flatten()
        if len(tokens) == 0:
            continue
        first = gemm1_weights[expert].float() * _spread(gemm1_weights_scale[expert], block)
        gemm1 = states[tokens] @ first.to(torch.bfloat16).T
        product = gemm1[:, :inner] * F.silu(gemm1[:, inner:])
        second = gemm2_weights[expert].float() * _spread(gemm2_weights_scale[expert], block)
        result = product @ second.to(torch.bfloat16).T
        output.index_add_(0, tokens, result.float() * share[tokens, None])
    return output.to(torch.bfloat16)


def _spread(scale, block):
    return scale.repeat_interleave(block, dim=0).repeat_interleave(block, dim=1)


def floor(axes):
    """What nearly every routing exceeds: an expert in use, and a chosen local expert, for every eighth token."""
    tokens, hidden = axes["seq_len"], axes["hidden_size"]
    out, inner = axes["gemm1_out_size"], axes["intermediate_size"]
    weights = hidden * (out + inner)
    used = max(1, min(axes["num_local_experts"] // 2, tokens // 8))
    pairs = max(1, tokens // 8)
    moved = used * weights + tokens * (4 * axes["num_experts"] + 2 * hidden) + pairs * hidden
    return {"bytes": moved, "operations": 2 * pairs * weights}
