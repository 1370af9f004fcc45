"""Deliberate errors in the FlashInfer-Bench tasks, as changes to the text of the references: each must be rejected."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

GQA = "gqa_paged_decode_h32_kv4_d128_ps1"
MLA = "mla_paged_decode_h16_ckv512_kpe64_ps1"
PREFILL = "mla_paged_prefill_causal_h16_ckv512_kpe64_ps1"
MOE = "moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048"
TASKS = (GQA, MLA, PREFILL, MOE)

_SLOTS = "slots = kv_indices[start:end].long()"
_FIVE_PERCENT = (_SLOTS, "slots = kv_indices[start : end - max(1, (end - start) // 20)].long()")
_NEIGHBOUR = (
    _SLOTS,
    "slots = torch.cat([kv_indices[start:end], kv_indices[[end % kv_indices.numel()]]]).long()",
)
_NATURAL = ("/ math.log(2.0)", "")
_SCALE = "_dequantised_matrix(gemm1_weights[expert], gemm1_weights_scale[expert]"

ERRORS: dict[str, dict[str, tuple[str, str]]] = {
    GQA: {"5 % of the keys skipped": _FIVE_PERCENT, "wrong mask": _NEIGHBOUR, "wrong base of lse": _NATURAL},
    MLA: {"5 % of the keys skipped": _FIVE_PERCENT, "wrong mask": _NEIGHBOUR, "wrong base of lse": _NATURAL},
    PREFILL: {
        "5 % of the keys skipped": (
            "> position[:, None]",
            "> position[:, None] - ((position + 1) // 20).clamp(min=1).minimum(position)[:, None]",
        ),
        "wrong mask": ("> position[:, None]", "> position[:, None] + 1"),
        "mask of a prefill without a prefix": ("+ (end - start) - (last - first)", ""),
        "wrong base of lse": _NATURAL,
    },
    MOE: {
        "routing bias in the weights": ("weights = scores.gather", "weights = (scores + bias.float()).gather"),
        "gate and up swapped": ("up, gate = (states", "gate, up = (states"),
        "scale of the states transposed": (
            "hidden_states_scale.T)",
            "hidden_states_scale.reshape(hidden_states.shape[0], -1))",
        ),
        "scale of the weights transposed": (_SCALE, f"{_SCALE}.T.reshape(gemm1_weights_scale[expert].shape)"),
    },
}
"""Task -> error -> what is replaced in the source of its reference, and by what."""


def wrong_reference(task: str, error: str, source: str) -> Callable[..., Any]:
    """Return the function `reference` of `source` with the error in it. Raises ValueError when it cannot be put in."""
    old, new = ERRORS[task][error]
    if source.count(old) == 0:
        raise ValueError(f"{task}: {error}: the reference has no {old!r}")
    return load_reference(source.replace(old, new, 1)).reference  # type: ignore[no-any-return]


def load_reference(source: str) -> ModuleType:
    """Return a reference's source as a module."""
    module = ModuleType("reference")
    exec(compile(source, "reference.py", "exec"), vars(module))
    return module
