"""What the driver's management library says of a GPU, through ctypes: read and recorded, never set."""

import ctypes
from dataclasses import dataclass
from functools import lru_cache

_SM, _MEMORY, _TEMPERATURE = 1, 2, 0
_REASONS = {
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
}
"""Throttle reasons that slow programs down (nvml.h; idle and the clocks that a person set are left out)."""


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


@dataclass(frozen=True)
class Reading:
    """The state of a GPU at one moment; None: the library does not say."""

    sm_mhz: int | None
    memory_mhz: int | None
    celsius: int | None
    milliwatts: int | None
    used_bytes: int | None
    throttled: tuple[str, ...]

    def words(self) -> str:
        """Return it as one line."""
        known = [
            f"SM {self.sm_mhz} MHz" if self.sm_mhz is not None else "",
            f"memory {self.memory_mhz} MHz" if self.memory_mhz is not None else "",
            f"{self.celsius} C" if self.celsius is not None else "",
            f"{self.milliwatts / 1000:.0f} W" if self.milliwatts is not None else "",
            f"{self.used_bytes / 2**30:.1f} GiB used" if self.used_bytes is not None else "",
            f"throttled: {', '.join(self.throttled)}" if self.throttled else "not throttled",
        ]
        return ", ".join(text for text in known if text)


def read(uuid: str) -> Reading | None:
    """Return the state of the GPU with this identity (`GPU-...`), None without the library or such a GPU."""
    library = _library()
    handle = ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0:
        return None
    memory, reasons = _Memory(), ctypes.c_ulonglong()
    known = library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
    said = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)) == 0
    bits = reasons.value if said else 0
    return Reading(
        sm_mhz=_number(library, "nvmlDeviceGetClockInfo", handle, _SM),
        memory_mhz=_number(library, "nvmlDeviceGetClockInfo", handle, _MEMORY),
        celsius=_number(library, "nvmlDeviceGetTemperature", handle, _TEMPERATURE),
        milliwatts=_number(library, "nvmlDeviceGetPowerUsage", handle, None),
        used_bytes=int(memory.used) if known else None,
        throttled=tuple(words for bit, words in _REASONS.items() if bits & bit),
    )


def identity(name: str) -> str | None:
    """Return the identity (`GPU-...`) of the GPU that CUDA_VISIBLE_DEVICES calls `name`, None when there is none."""
    library = _library()
    handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    if library is None:
        return None
    if name.isdigit():
        found = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(handle))
    else:
        found = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    if found != 0 or library.nvmlDeviceGetUUID(handle, text, ctypes.c_uint(96)) != 0:
        return None
    return text.value.decode()


def driver_version() -> str:
    """Return the driver's version, empty when there is none."""
    library = _library()
    text = ctypes.create_string_buffer(96)
    if library is None or library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)) != 0:
        return ""
    return text.value.decode()


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def _number(library: ctypes.CDLL, name: str, handle: ctypes.c_void_p, kind: int | None) -> int | None:
    value = ctypes.c_uint()
    arguments = [handle, *([] if kind is None else [ctypes.c_int(kind)]), ctypes.byref(value)]
    return int(value.value) if library[name](*arguments) == 0 else None
