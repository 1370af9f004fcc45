"""bfloat16 in Triton's interpreter, which otherwise takes it for integers of 16 bits.

Blocks of bfloat16 are held in float32, and rounded when they are cast or stored: results are at least as exact as a
GPU's. Copied beside the program, like triton_stand_in.py.
"""

from typing import Any

import numpy as np

_REFUSED = ("create_atomic_rmw", "create_atomic_cas", "create_bitcast")
"""What would touch four bytes in memory where two are meant."""


class Bfloat16:
    """Replaces what the interpreter does with blocks of bfloat16."""

    def __init__(self) -> None:
        """Remember what the interpreter does with other types."""
        import triton.language as tl
        from triton.runtime import interpreter as own

        interpreter: Any = own
        self._tl, self._interpreter = tl, interpreter
        self._builder, self._handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
        names = ("create_masked_load", "create_masked_store", "cast_impl", "create_fp_to_fp", "create_fabs", *_REFUSED)
        self._plain = {name: vars(self._builder)[name] for name in names}
        self._dtype_of, self._fits = interpreter._get_np_dtype, interpreter._validate_np_data_size

    def install(self) -> None:
        """Replace it, in this process, from now on."""
        replaced = {
            "create_masked_load": self._load,
            "create_masked_store": self._store,
            "cast_impl": self._cast,
            "create_fp_to_fp": self._fp_to_fp,
            "create_fabs": self._fabs,
            **{name: self._refusal(name) for name in _REFUSED},
        }
        for name, replacement in replaced.items():
            setattr(self._builder, name, _method(replacement))
        self._interpreter._get_np_dtype = self._np_dtype
        self._interpreter._validate_np_data_size = lambda array, dtype: self._is(dtype) or self._fits(array, dtype)

    def _is(self, dtype: Any) -> bool:
        return bool(dtype.scalar == self._tl.bfloat16)

    def _np_dtype(self, dtype: Any) -> Any:
        return np.dtype(np.float32) if dtype == self._tl.bfloat16 else self._dtype_of(dtype)

    def _load(self, builder: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        if not self._is(ptrs.get_element_ty()):
            return self._plain["create_masked_load"](builder, ptrs, mask, other, *rest, **named)
        filled = np.zeros((), np.uint16) if other is None else to_bfloat16(other.data)
        filled = np.ascontiguousarray(np.broadcast_to(filled, ptrs.data.shape))
        bits = self._interpreter._interpreter.load(ptrs.data, mask.data, filled, np.dtype(np.uint16))
        return self._handle(from_bfloat16(bits), self._tl.bfloat16)

    def _store(self, builder: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        if self._is(value.dtype):
            value = self._handle(to_bfloat16(value.data), self._tl.uint16)
        return self._plain["create_masked_store"](builder, ptrs, value, mask, *rest, **named)

    def _cast(self, builder: Any, source: Any, wanted: Any) -> Any:
        if self._is(wanted):
            return self._handle(from_bfloat16(to_bfloat16(source.data)), self._tl.bfloat16)
        if self._is(source.dtype):
            return self._handle(source.data.astype(self._np_dtype(wanted.scalar)), wanted.scalar)
        return self._plain["cast_impl"](builder, source, wanted)

    def _fp_to_fp(self, builder: Any, source: Any, wanted: Any, rounding: Any) -> Any:
        if self._is(wanted) or self._is(source.dtype):
            return self._cast(builder, source, wanted)
        return self._plain["create_fp_to_fp"](builder, source, wanted, rounding)

    def _fabs(self, builder: Any, value: Any) -> Any:
        if self._is(value.dtype):
            return self._handle(np.abs(value.data), self._tl.bfloat16)
        return self._plain["create_fabs"](builder, value)

    def _refusal(self, name: str) -> Any:
        def refused(builder: Any, *args: Any, **named: Any) -> Any:
            if any(self._is(arg.dtype) for arg in args if isinstance(arg, self._handle)):
                raise NotImplementedError(f"{name} of bfloat16 in Triton's interpreter")
            return self._plain[name](builder, *args, **named)

        return refused


def _method(function: Any) -> Any:
    return lambda builder, *args, **named: function(builder, *args, **named)


def from_bfloat16(bits: Any) -> Any:
    """Return float32 values of bfloat16 bit patterns (uint16)."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: Any) -> Any:
    """Return bfloat16 bit patterns (uint16), rounded to the nearest, ties to even; NaN stays NaN."""
    single = np.ascontiguousarray(values, np.float32)
    bits = single.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded).reshape(np.shape(values))
