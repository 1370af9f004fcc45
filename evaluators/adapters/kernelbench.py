"""KernelBench problems: a file with a class `Model`, `get_inputs` and `get_init_inputs`; programs define `ModelNew`.

Weights are drawn from a seed, with which `Model` and `ModelNew` are constructed alike: a program that makes its
parameters as the model does has the same ones. The seed is an input of the task, so programs meet several.
"""

import ast
import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evaluators.adapters.own_task import default_tolerance, plain_name, title_of
from evaluators.adapters.probing import PROBE_S, Signature, Unended, probed
from evaluators.adapters.source_file import SourceFile
from evaluators.errors import TaskError
from evaluators.invalid import first_problem
from evaluators.objective import Record
from evaluators.solution import Language, Solution
from evaluators.task import Contract, Task, Tolerance, Workload
from evaluators.task_file import check_sizes
from evaluators.task_source import check_reference
from evaluators.worker import gpus

WEIGHTS = "weights_seed"
"""The input that tells with which seed a model is constructed."""
SCALES = (0.25, 4.0)
"""What random inputs are multiplied by on the held-out workloads."""
TIMEOUT_S = 180.0
_TOLERANCES = {"float32": Tolerance(rtol=1e-4, atol=1e-4), "float16": Tolerance(rtol=1e-2, atol=1e-2),
               "bfloat16": Tolerance(rtol=1e-2, atol=1e-2)}  # fmt: skip
"""By the type of the output; those of the benchmark."""
_SHIM = '''

# How the evaluator calls the problem.
def _model(weights_seed, device, _made={{}}):
    import torch

    if (weights_seed, device) not in _made:
        if len(_made) > 3:
            _made.clear()
        torch.manual_seed(weights_seed)
        _made[weights_seed, device] = Model(*get_init_inputs()).to(device)
    return _made[weights_seed, device]


def _told(value):
    """Return a constructor's arguments as JSON can hold them; a tuple and a dict as a table."""
    if isinstance(value, tuple):
        return {{"tuple": [_told(item) for item in value]}}
    if isinstance(value, dict):
        return {{"dict": [[_told(key), _told(item)] for key, item in value.items()]}}
    if isinstance(value, list):
        return [_told(item) for item in value]
    if not isinstance(value, (int, float, str, type(None))):
        raise TypeError(f"get_init_inputs() gives a {{type(value).__name__}}, not a number, text, list, tuple or dict")
    return value


def about(_known=[]):
    """Return what the model is constructed with, and whether chance has a part in it."""
    import torch

    if not _known:
        torch.manual_seed(1)
        before = torch.get_rng_state()
        Model(*get_init_inputs())
        _known.append({{"init": _told(get_init_inputs()), "random": not torch.equal(before, torch.get_rng_state())}})
    return _known[0]


def _device(values):
    import torch

    return next((value.device for value in values if isinstance(value, torch.Tensor)), torch.device("cpu"))


def _drawn(seed, _mixes=[]):
    """Return what get_inputs() gives, made on the GPU of a task for one, where large inputs take no time.

    Made on the CPU if it mixes them with what it has there.
    """
    import torch

    torch.manual_seed(seed)
    if {device!r} == "cuda" and torch.cuda.is_available() and not _mixes:
        try:
            with torch.device("cuda"):
                return get_inputs()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError):  # two devices, or numpy; what is wrong on any is raised again below
            _mixes.append(True)
            torch.manual_seed(seed)
    return get_inputs()


def inputs(axes, params, seed, *, _secret=[]):
    """Return the inputs by name, and with which of two secret seeds the model is constructed."""
    import secrets
    import torch

    if not _secret:
        _secret.append(secrets.randbits(40) * 2)
    weights = {{{weights!r}: _secret[0] + seed % 2}} if about()["random"] else {{}}
    values = _drawn(seed)
    if len(values) > {most}:
        raise TypeError(f"get_inputs() gives {{len(values)}} values, Model.forward takes at most {most}")
    made = dict(zip({names}, values, strict=False))
    for name, value in made.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            made[name] = value * params.get("scale", 1.0)
    return {{**made, **weights}}


def reference({signature}):
    """Return what the model returns."""
    import torch

    values = [{arguments}]
    model = _model(values.pop(), _device(values))
    with torch.no_grad():
        return model(*[value for value in values if value is not None])


def baseline({signature}):
    """Run the model as it is, eagerly."""
    return reference({arguments})
'''
_WRAPPER = """import json

import torch


def _made(value):
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(_made(item) for item in value["tuple"])
        return {{_made(key): _made(item) for key, item in value["dict"]}}
    return [_made(item) for item in value] if isinstance(value, list) else value


_init = _made(json.loads({init!r}))
_random = {random!r}
_models = {{}}


def call(*values):
    seed = values[-1] if _random else 0
    values = values[:-1] if _random else values
    model = _models.get(seed)
    if model is None:
        device = next((value.device for value in values if isinstance(value, torch.Tensor)), "cpu")
        torch.manual_seed(seed)
        model = _models[seed] = _program(*_init).to(device)
    with torch.no_grad():
        return model(*values)
"""
_DESCRIPTION = """{about}

The class `Model` below says what is computed. Write a class `ModelNew`, constructed with the same arguments and called
with the same inputs, that returns the same faster.
{weights}"""
_WEIGHTS = """
Its parameters are drawn: `Model` and `ModelNew` are constructed right after `torch.manual_seed` of one and the same
seed, so make the parameters in the same order and in the same way as `Model` does. What depends on parameters alone may
be prepared when the object is constructed. Several seeds are tried.
"""
_PLAIN = "\n\nclass ModelNew(Model):\n    pass\n"
_COMPILED = '''

class ModelNew(Model):
    """The model, compiled."""

    def __init__(self, *arguments):
        import torch
        import torch._inductor.config

        # No helpers beside this process, no header as large as the space for files.
        torch._inductor.config.compile_threads = 1
        torch._inductor.config.cpp_cache_precompile_headers = False
        super().__init__(*arguments)
        self._compiled = torch.compile(super().forward)

    def forward(self, *values):
        return self._compiled(*values)
'''


class _About(Record):
    """What a problem says of itself."""

    init: Any
    """Arguments of the constructor; a tuple or a dict is a table."""
    random: bool
    """Whether chance has a part in the parameters."""


def load_task(rest: str) -> Task:
    """Return the task of the problem file `rest`, on the GPU where there is one; `FILE#cpu`, `FILE#cuda` say where.

    Raises TaskError, one line that names the file and what in it is wrong.
    """
    place, _, device = rest.partition("#")
    device = device or ("cuda" if gpus.present() else "cpu")
    source = SourceFile.read(Path(place))
    if device not in ("cpu", "cuda"):
        source.refuse(f"#{device}: must be #cpu or #cuda")
    names = _check(source)
    reference = source.text.rstrip() + _SHIM.format(
        names=names,
        most=len(names),
        signature=", ".join((*(f"{name}=None" for name in names), f"{WEIGHTS}=0")),
        arguments=", ".join((*names, WEIGHTS)),
        weights=WEIGHTS,
        device=device,
    )
    signature = _probed(source, reference, device)
    task = _task(source, reference, signature, device)
    try:
        check_sizes(task)
        check_reference(reference, tuple(task.inputs))
    except TaskError as error:
        source.refuse(str(error))
    return task


def compiled_program(task: Task) -> Solution:
    """Return the problem's model under torch.compile as a program, to compare others with."""
    contract = task.contracts["python"]
    assert contract.seed is not None
    text = contract.seed[contract.main_file].removesuffix(_PLAIN) + _COMPILED
    return Solution(
        files={"compiled.py": text}, language="python", entry_point=contract.entry_point, binding=contract.binding
    )


def _check(source: SourceFile) -> tuple[str, ...]:
    """Return the names of the arguments of Model.forward, as far as get_inputs may give them."""
    for name in ("get_inputs", "get_init_inputs"):
        if name not in source.functions:
            source.refuse(f"defines no function {name}(), as a KernelBench problem does")
    forward = next((item for item in _members(source) if item.name == "forward"), None)
    if forward is None:
        source.refuse("defines no class Model with a method forward, as a KernelBench problem does")
    names = tuple(argument.arg for argument in (*forward.args.posonlyargs, *forward.args.args))[1:]
    if WEIGHTS in names or forward.args.vararg or forward.args.kwarg or not names:
        source.refuse("Model.forward: must name its arguments")
    return names


def _members(source: SourceFile) -> list[ast.FunctionDef]:
    models = [node for node in source.tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    return [item for model in models for item in model.body if isinstance(item, ast.FunctionDef)]


def _probed(source: SourceFile, reference: str, device: str) -> Signature:
    """Return what the model takes and returns; scales that its inputs do not bear are left out."""
    plain = Workload(name="as given", axes={})
    scaled = [Workload(name=f"times {scale:g}", split="held_out", axes={}, params={"scale": scale}) for scale in SCALES]
    try:
        return probed(source, reference, [plain, *scaled], PROBE_S, fake=device != "cpu")
    except Unended:
        raise
    except TaskError:
        return probed(source, reference, [plain], PROBE_S, fake=device != "cpu")


def _task(source: SourceFile, reference: str, signature: Signature, device: str) -> Task:
    outputs = {tensor.dtype for tensor in signature.outputs.values()}
    tolerance = next((rule for dtype, rule in _TOLERANCES.items() if dtype in outputs), None)
    languages: tuple[Language, ...] = ("python",) if device == "cpu" else ("triton", "python")
    try:
        about = _About.model_validate(signature.about)
    except ValidationError as error:
        source.refuse(f"what it says of itself is not understood: {first_problem(error)}")
    wrapper = _WRAPPER.format(init=json.dumps(about.init), random=about.random)
    contract = Contract(entry_point="ModelNew", binding="model_new", wrapper=wrapper)
    seeded = contract.model_copy(update={"seed": {"seed.py": source.text.rstrip() + _PLAIN}, "main_file": "seed.py"})
    return Task(
        name=plain_name(source.path),
        title=title_of(source),
        description=_DESCRIPTION.format(
            about=source.docstring or plain_name(source.path), weights=_WEIGHTS if about.random else ""
        ),
        device="cpu" if device == "cpu" else "cuda",
        constants=signature.constants,
        axes=signature.axes,
        inputs=signature.inputs,
        outputs=signature.outputs,
        workloads=signature.workloads,
        tolerance=tolerance or default_tolerance(signature.outputs),
        contracts={language: seeded if language == "python" else contract for language in languages},
        reference=reference,
        timeout_s=TIMEOUT_S,
        origin=f"kernelbench:{source.path}",
        reference_at=str(source.path),
        workloads_at=str(source.path),
    )
