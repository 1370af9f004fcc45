"""What can be told of a task's Python sources without running them."""

import ast
import warnings

from evaluators.errors import TaskError

_GENERATOR = ("axes", "params", "seed")
DECLARATIONS = ("NAME", "WORKLOADS", "HELD_OUT", "TOLERANCE", "SEED", "LANGUAGES", "DEVICE", "TIMEOUT_S")
"""Constants by which a task in a file of its own says what is not computed in it."""
EVALUATOR_DECLARATIONS = (
    "NAME", "METRIC", "GOAL", "UNIT", "SEED", "LANGUAGE", "ENTRY_POINT", "FILES", "DEVICE", "TIMEOUT_S",
)  # fmt: skip
"""Those of a file that holds an evaluator."""


def check_reference(source: str, inputs: tuple[str, ...]) -> None:
    """Check that reference.py parses and that its functions take the arguments they are called with.

    `inputs(axes, params, seed)` and `reference(**inputs)` must be there; `baseline(**inputs)`,
    `planned_baseline(**inputs)` and `floor(axes)` may.
    Raises TaskError that names the function and the reason.
    """
    functions = _functions(source, "reference.py")
    for name, arguments in (("inputs", _GENERATOR), ("reference", inputs)):
        if name not in functions:
            raise TaskError(f"reference.py: defines no function {name}({', '.join(arguments)})")
    calls = {"inputs": _GENERATOR, "reference": inputs, "baseline": inputs, "floor": ("axes",)}
    calls["planned_baseline"] = inputs
    for name, arguments in calls.items():
        if name in functions:
            _check_arguments(functions[name], arguments)


def check_function(source: str, file: str, name: str) -> None:
    """Check that the Python source `file` parses and defines the function `name`; raises TaskError."""
    if name not in _functions(source, file):
        raise TaskError(f"{file}: defines no function {name!r}")


def _functions(source: str, file: str) -> dict[str, ast.FunctionDef]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a text is no reason to refuse a task
            module = ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"{file}: line {error.lineno or 1}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{file}: is not Python: {str(error) or 'nested too deeply'}") from error
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


def _check_arguments(function: ast.FunctionDef, called_with: tuple[str, ...]) -> None:
    """Check that the function can be called with these keywords."""
    arguments = function.args
    named = [argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]]
    required = named[: len(arguments.args) - len(arguments.defaults)]
    required += [a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default]
    positional = [argument.arg for argument in arguments.posonlyargs]
    unknown = [] if arguments.kwarg else [name for name in called_with if name not in named]
    if positional or unknown or not set(required) <= set(called_with):
        raise TaskError(
            f"reference.py: {function.name}: must take the arguments {', '.join(called_with)}, it takes"
            f" {', '.join([*positional, *named]) or 'none'}"
        )


def function_source(source: str, name: str) -> str | None:
    """Return the text of the last function `name` of a reference, None when there is none; raises TaskError."""
    node = _functions(source, "reference.py").get(name)
    return None if node is None else ast.get_source_segment(source, node)
