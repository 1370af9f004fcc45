"""FlashInfer's paged MLA (its Hopper kernel), planned outside of the timed call. Needs the extra `flashinfer`."""

import torch

_workspaces = {}


def planned_baseline(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale):
    """Return the planned call: output and lse (to the base 2)."""
    import flashinfer

    device = q_nope.device
    if device not in _workspaces:
        _workspaces[device] = torch.empty(128 << 20, dtype=torch.uint8, device=device)
    backend = "fa3" if torch.cuda.get_device_capability(device)[0] == 9 else "fa2"
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(_workspaces[device], backend=backend)
    wrapper.plan(
        torch.arange(q_nope.shape[0] + 1, dtype=torch.int32, device=device),
        kv_indptr,
        kv_indices,
        kv_indptr[1:] - kv_indptr[:-1],
        num_heads=q_nope.shape[1],
        head_dim_ckv=q_nope.shape[2],
        head_dim_kpe=q_pe.shape[2],
        page_size=ckv_cache.shape[1],
        causal=False,
        sm_scale=sm_scale,
        q_data_type=q_nope.dtype,
        kv_data_type=ckv_cache.dtype,
    )
    return lambda: wrapper.run(q_nope, q_pe, ckv_cache, kpe_cache, return_lse=True)
