"""How a program is called, as a declaration in its own language."""

from collections.abc import Mapping

from evaluators.adapters.kernelbench import WEIGHTS
from evaluators.solution import Language
from evaluators.task import Contract, Scalar, Task, Tensor

_C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
_CUDA_HALF: Mapping[str, str] = {"float16": "__half", "bfloat16": "__nv_bfloat16"}


def signature(task: Task, language: Language, contract: Contract) -> str:
    """Return the declaration of the entry point; C pointers have their symbolic shapes in comments."""
    if contract.binding == "file":
        return contract.entry_point
    if contract.binding == "plain_c":
        return _plain_c(task, language, contract)
    if contract.binding == "torch" and language in ("cpp", "cuda"):
        return _torch_extension(task, contract)
    return _python(task, contract)


def _plain_c(task: Task, language: Language, contract: Contract) -> str:
    inputs = [_c_argument(name, argument, language, "const ") for name, argument in task.inputs.items()]
    outputs = [_c_argument(name, tensor, language, "") for name, tensor in task.outputs.items()]
    sizes = [f"int64_t {axis}" for axis in task.axes]
    stream = ["cudaStream_t stream"] if language == "cuda" else []
    arguments = [*inputs, *outputs, *sizes, *stream]
    return f'extern "C" void {contract.entry_point}(\n    ' + ",\n    ".join(arguments) + ");"


def _c_argument(name: str, argument: Tensor | Scalar, language: Language, const: str) -> str:
    if isinstance(argument, Scalar):
        return f"{_C_TYPES[argument.scalar]} {name}"
    shape = ", ".join(argument.shape)
    if argument.dtype in _C_TYPES:
        return f"{const}{_C_TYPES[argument.dtype]}* {name} /* [{shape}] */"
    if language == "cuda":
        return f"{const}{_CUDA_HALF[argument.dtype]}* {name} /* [{shape}] */"
    return f"{const}uint16_t* {name} /* [{shape}] {argument.dtype} bits */"


def _torch_extension(task: Task, contract: Contract) -> str:
    inputs = [
        f"{_C_TYPES[argument.scalar]} {name}" if isinstance(argument, Scalar) else f"torch::Tensor {name}"
        for name, argument in task.inputs.items()
    ]
    outputs = [f"torch::Tensor {name}" for name in task.outputs]
    call = f"void {contract.entry_point}({', '.join([*inputs, *outputs])});"
    name = contract.entry_point
    return f'{call}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{name}", &{name}); }}'


def _python(task: Task, contract: Contract) -> str:
    inputs = [f"{name}: {_python_type(argument)}" for name, argument in task.inputs.items()]
    outputs = [f"{name}: torch.Tensor" for name in task.outputs]
    result = "torch.Tensor" if len(outputs) == 1 else f"tuple[{', '.join(['torch.Tensor'] * len(outputs))}]"
    name = contract.entry_point
    match contract.binding:
        case "custom_kernel" if contract.wrapper:
            return f"def {name}(data) -> {result}: ..."
        case "custom_kernel":
            return f"def {name}(data) -> {result}:\n    {', '.join(task.inputs)} = data"
        case "model_new":
            drawn = f"{WEIGHTS}: "
            arguments = ", ".join(["self", *(item for item in inputs if not item.startswith(drawn))])
            return f"class {name}(torch.nn.Module):\n    def forward({arguments}) -> {result}: ..."
        case "value":
            return f"def {name}({', '.join(inputs)}) -> {result}: ..."
        case _:
            return f"def {name}({', '.join([*inputs, *outputs])}) -> None: ..."


def _python_type(argument: Tensor | Scalar) -> str:
    if isinstance(argument, Tensor):
        return "torch.Tensor"
    return "float" if argument.scalar.startswith("float") else "int"
