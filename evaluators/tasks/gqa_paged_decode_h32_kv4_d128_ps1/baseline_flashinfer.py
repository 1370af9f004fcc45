"""FlashInfer's paged decode with tensor cores, planned outside of the timed call. Needs the extra `flashinfer`."""

import torch

_workspaces = {}


def planned_baseline(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    """Return the planned call: output and lse (to the base 2)."""
    import flashinfer

    device = q.device
    if device not in _workspaces:
        _workspaces[device] = torch.empty(128 << 20, dtype=torch.uint8, device=device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(_workspaces[device], kv_layout="NHD", use_tensor_cores=True)
    wrapper.plan(
        kv_indptr,
        kv_indices,
        torch.ones(q.shape[0], dtype=torch.int32, device=device),
        num_qo_heads=q.shape[1],
        num_kv_heads=k_cache.shape[2],
        head_dim=q.shape[2],
        page_size=k_cache.shape[1],
        q_data_type=q.dtype,
        kv_data_type=k_cache.dtype,
        sm_scale=sm_scale,
    )
    return lambda: wrapper.run(q, (k_cache, v_cache), return_lse=True)
