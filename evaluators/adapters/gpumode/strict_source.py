"""The sources that a GPU MODE problem's strict task is put together from: templates that strict.py fills.

`data` is taken apart into flat inputs where references run, and put together again for the program.
"""

BUFFER = "preallocated"
"""How inputs are called in whose place a program gets memory for its result."""
LOADING = '''"""A GPU MODE problem, with what turns its `data` into flat arguments."""

import importlib.abc
import importlib.util
import inspect
import sys

import torch

_FILES = {files!r}
_DEVICE = {device!r}
_ORIGINAL = torch.Generator


class _Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the problem's modules in the texts above."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name + ".py" in _FILES else None

    def exec_module(self, module):
        exec(compile(_FILES[module.__name__ + ".py"], module.__name__ + ".py", "exec"), vars(module))


class _Here(torch.overrides.TorchFunctionMode):
    """Makes what is asked for on a GPU on the processor, where the task runs there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        args = [self._place(value) for value in args]
        kwargs = {{name: self._place(value) for name, value in (kwargs or {{}}).items()}}
        if function is torch.Tensor.cuda:
            return args[0]
        return function(*args, **kwargs)

    @staticmethod
    def _place(value):
        on_gpu = isinstance(value, (str, torch.device)) and str(value).split(":")[0] == "cuda"
        return torch.device("cpu") if on_gpu else value


class _Inside:
    """The problem's modules can be imported, and its devices are ours."""

    _modules = {{}}

    def __enter__(self):
        self._finder, self._mode = _Modules(), _Here() if _DEVICE == "cpu" else None
        self._before = {{name[:-3]: sys.modules.pop(name[:-3], None) for name in _FILES}}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self._finder)
        if self._mode is not None:
            self._synchronize, torch.cuda.synchronize = torch.cuda.synchronize, lambda *args: None
            torch.Generator = lambda device="cpu": _ORIGINAL()
            self._mode.__enter__()

    def __exit__(self, *error):
        if self._mode is not None:
            self._mode.__exit__(*error)
            torch.Generator, torch.cuda.synchronize = _ORIGINAL, self._synchronize
        sys.meta_path.remove(self._finder)
        for name, module in self._before.items():
            found = sys.modules.pop(name, None)
            if found is not None:
                self._modules[name] = found
            if module is not None:
                sys.modules[name] = module


with _Inside():
    import reference as _problem


def _leaves(data, path=()):
    """Yield (path, leaf) of nested tuples, lists and dicts."""
    if isinstance(data, (tuple, list)):
        for place, item in enumerate(data):
            yield from _leaves(item, (*path, place))
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path, data


def _generated(axes, params, seed):
    taken = inspect.signature(_problem.generate_input).parameters
    case = {{name: value for name, value in {{**params, **axes}}.items() if name in taken}}
    if "seed" in case:
        case["seed"] = seed % (2**31 - 1)
    torch.manual_seed(seed)
    with _Inside():
        return _problem.generate_input(**case)


def _replaced(data, values, path=()):
    """Return `data` with the leaves in `values` (path -> leaf) in place of its own."""
    if isinstance(data, dict):
        return {{key: _replaced(item, values, (*path, key)) for key, item in data.items()}}
    if isinstance(data, (tuple, list)):
        items = [_replaced(item, values, (*path, place)) for place, item in enumerate(data)]
        return type(data)(items) if type(data) in (tuple, list) else type(data)(*items)
    return values.get(path, data)


def _is_flat(leaf):
    return isinstance(leaf, (torch.Tensor, int, float)) and not isinstance(leaf, bool)
'''
ABOUT = '''

def about():
    """Return how `data` is put together: a nest of ["tuple"|"list"|"dict", ...] around inputs' names and constants."""
    case = {case!r}
    data = _generated(case["axes"], case["params"], 1)
    copied = _replaced(data, {{p: v.clone() for p, v in _leaves(data) if isinstance(v, torch.Tensor)}})
    with torch.no_grad(), _Inside():
        answer = _problem.ref_kernel(copied)
    results = {{v.data_ptr() for _, v in _leaves(answer) if isinstance(v, torch.Tensor)}}
    kept = {{p for p, v in _leaves(copied) if isinstance(v, torch.Tensor) and v.data_ptr() in results}}
    return {{"leaves": [[list(p), _named(p, p in kept) if _is_flat(v) else None] for p, v in _leaves(data)],
            "shape": _shape(data, kept)}}


def _named(path, buffer):
    import re

    words = [str(step) for step in path if isinstance(step, str)] or ["data", *map(str, path)]
    name = re.sub(r"[^A-Za-z0-9_]", "_", "_".join(words))
    if name[:1].isdigit() or not name:
        name = "data_" + name
    return {buffer!r} + "_" + name if buffer else name


def _shape(data, kept, path=()):
    if isinstance(data, dict):
        return ["dict", [[key, _shape(item, kept, (*path, key))] for key, item in data.items()]]
    if isinstance(data, (tuple, list)):
        return [type(data).__name__ if type(data) in (tuple, list) else "tuple",
                [_shape(item, kept, (*path, place)) for place, item in enumerate(data)]]
    return ["input", _named(path, path in kept)] if _is_flat(data) else ["constant", data]
'''
CALLS = '''

_LEAVES = {leaves!r}


def inputs(axes, params, seed):
    """Return the numbers and tensors of `data` by name."""
    values = dict(_leaves(_generated(axes, params, seed)))
    return {{name: values[tuple(path)] for path, name in _LEAVES if name is not None}}


def reference(**values):
    """Return what the problem's reference returns for the same `data`."""
    with torch.no_grad(), _Inside():
        return _result(_problem.ref_kernel(_data(values)))


def _result(answer):
    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer
'''
DATA = '''

_SHAPE = {shape!r}


def _data(values, shape=_SHAPE):
    """Return `data`, made anew of the arguments."""
    kind, content = shape
    if kind == "dict":
        return {{key: _data(values, item) for key, item in content}}
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(_data(values, item) for item in content)
    if kind == "constant":
        return content
    value = values[content]
    return torch.empty_like(value) if content.startswith({buffer!r}) else value
'''
WRAPPER = """import torch
{data}

_NAMES = {names!r}


def call(*values):
    answer = _program(_data(dict(zip(_NAMES, values, strict=True))))
    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer
"""
