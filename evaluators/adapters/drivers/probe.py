"""Driver: which tensors a reference module makes and returns, for each of several cases.

A function `about()` may say more, as JSON. With `fake`, tried without computing anything first: fake tensors have sizes
and types only, whatever the device.
"""

import json
import sys
import types
import warnings
from typing import Any

import torch

from evaluators.worker.failure import lacks_memory

_NAMES = {
    getattr(torch, name): name
    for name in (
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
        "int64", "int32", "int8", "uint8", "bool",
    )
}  # fmt: skip


class Caught:
    """Keeps an exception of untrusted code, as `error`, instead of passing it on."""

    error: Exception | None = None

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Keep the exception and go on."""
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return `{"cases": [{"inputs", "outputs"}], "about"}`, or `{"problem"}`.

    With a problem there may be `case`, the number of that at which it came up, and `no_room`: it is want of memory.
    `request`: `reference` (source), `file` (its name), `cases`, `fake`.
    """
    warnings.simplefilter("ignore")
    module = types.ModuleType("reference")
    caught = Caught()
    _say("its source")
    with caught:
        exec(compile(request["reference"], request["file"], "exec"), vars(module))
    if caught.error is not None:
        return _problem("its source", caught.error)
    found = []
    for number, case in enumerate(request["cases"]):
        made = _described(vars(module), case, request["fake"])
        if "problem" in made:
            return {**made, "case": number}
        found.append(made)
    about: Any = {}
    _say("what it says of itself")
    with caught:
        about = json.loads(json.dumps(vars(module)["about"]() if "about" in vars(module) else {}))
    return (
        {"cases": found, "about": about} if caught.error is None else _problem("what it says of itself", caught.error)
    )


def _described(names: dict[str, Any], case: dict[str, Any], fake: bool) -> dict[str, Any]:
    if fake:
        from torch._subclasses.fake_tensor import FakeTensorMode

        # What depends on values, or is not known to fake tensors, must really run.
        with Caught(), FakeTensorMode(allow_non_fake_inputs=True):
            made = _run(names, case)
            if "problem" not in made:
                return made
    return _run(names, case)


def _run(names: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    where = ", ".join(f"{key}={value!r}" for key, value in {**case["axes"], **case["params"]}.items())
    made, answer = None, None
    caught = Caught()
    _say(f"inputs({where})")
    with caught:
        made = names["inputs"](dict(case["axes"]), dict(case["params"]), 1)
    if caught.error is not None:
        return _problem(f"inputs({where})", caught.error)
    if not isinstance(made, dict):
        return {"problem": f"inputs({where}) must return a dict of tensors by name, it returned {_kind(made)}"}
    _say(f"reference() of inputs({where})")
    with caught, torch.no_grad():
        answer = names["reference"](**made)
    if caught.error is not None:
        return _problem(f"reference() of inputs({where})", caught.error)
    return _entries(made, answer, where or "its size")


def _entries(made: dict[str, Any], answer: Any, where: str) -> dict[str, Any]:
    if isinstance(answer, dict):
        outputs: list[tuple[str | None, Any]] = list(answer.items())
    else:
        outputs = [(None, item) for item in (answer if isinstance(answer, tuple | list) else [answer])]
    described: dict[str, list[tuple[str | None, dict[str, Any]]]] = {
        "inputs": [(name, _describe(value)) for name, value in made.items()],
        "outputs": [(name, _describe(value)) for name, value in outputs],
    }
    for what, group in described.items():
        for name, entry in group:
            if "problem" in entry:
                return {"problem": f"{what[:-1]} {name or ''} at {where}: {entry['problem']}"}
    return described


def _describe(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return _described_tensor(value)
    if isinstance(value, int):
        held = -(2**63) <= value < 2**63
        return {"scalar": "int64"} if held else {"problem": "it is a number that no int64 can hold"}
    if isinstance(value, float):
        return {"scalar": "float64"}
    return {"problem": f"it is {_kind(value)}, neither a tensor nor a number"}


def _described_tensor(value: torch.Tensor) -> dict[str, Any]:
    if value.dtype not in _NAMES:
        return {"problem": f"its type {value.dtype} is not one of {', '.join(_NAMES.values())}"}
    if value.layout != torch.strided:
        return {"problem": f"its layout {value.layout} is not that of a plain tensor"}
    if 0 in value.shape:
        return {"problem": f"it is empty: its shape is {list(value.shape)}"}
    return {"dtype": _NAMES[value.dtype], "shape": list(value.shape)}


def _say(stage: str) -> None:
    """Tell what is done next, in case there is no answer."""
    sys.stdout.write(f"\nat: {stage}\n")
    sys.stdout.flush()


def _problem(what: str, error: Exception) -> dict[str, Any]:
    if lacks_memory(error):
        return {"problem": f"{what} needs more memory than it is given", "no_room": True}
    return {"problem": f"{what} failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
