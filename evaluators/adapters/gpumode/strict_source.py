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

_CASES = {{}}


def inputs(axes, params, seed):
    data = _generated(axes, params, seed)
    leaves = list(_leaves(data))
    _CASES[repr((axes, params))] = {{
        "axes": axes,
        "params": params,
        "kinds": {{path: str(leaf.dtype) for path, leaf in leaves if isinstance(leaf, torch.Tensor)}},
        "constants": {{path: leaf for path, leaf in leaves if not _is_flat(leaf)}},
        "paths": [path for path, _ in leaves],
    }}
    return {{"x": torch.ones(1)}}


def reference(x):
    return x


class _Refused(Exception):
    """The data cannot be taken apart; the message says why."""


def about():
    """Return what `_put_together` does, or why it cannot be told as `problem`."""
    try:
        return _put_together()
    except _Refused as error:
        return {{"problem": str(error)}}


def _put_together():
    """Return how `data` is put together: a nest of ["tuple"|"list"|"dict", ...] around inputs' names and constants.

    Besides: the types of tensors that are made in several (`promoted`), and what becomes of truth values and words that
    differ from case to case (`flags`).
    """
    cases = sorted(_CASES.values(), key=_volume)
    if any(case["paths"] != cases[0]["paths"] for case in cases):
        raise _Refused("generate_input: puts its data together in different ways in different cases")
    data = _data_of(cases[0])
    copied = _cloned(data)
    case = ", ".join(f"{{name}}={{value!r}}" for name, value in {{**cases[0]["axes"], **cases[0]["params"]}}.items())
    print(f"\\nat: ref_kernel({{case}})", flush=True)
    try:
        answer = _answer(copied)
    except Exception as error:
        raise _Refused(f"ref_kernel({{case}}) failed: {{type(error).__name__}}: {{error}}") from error
    results = {{v.data_ptr() for _, v in _leaves(answer) if isinstance(v, torch.Tensor)}}
    kept = {{p for p, v in _leaves(copied) if isinstance(v, torch.Tensor) and v.data_ptr() in results}}
    flags = {{path: _flag(path, cases) for path in cases[0]["constants"] if _differs(path, cases)}}
    names = {{p: _named(p, p in kept) for p, v in _leaves(data) if _is_flat(v) or flags.get(p) == ["input"]}}
    return {{
        "leaves": [[list(path), names.get(path)] for path, _ in _leaves(data)],
        "shape": _shape(data, names, flags),
        "promoted": {{names[path]: kinds for path in names for kinds in [_kinds(path, cases)] if len(kinds) > 1}},
        "flags": [["data" + "".join(f"[{{step!r}}]" for step in path), *kind] for path, kind in flags.items()],
    }}


def _volume(case):
    volume = 1
    for size in case["axes"].values():
        volume *= size
    return volume


def _data_of(case):
    return _generated(case["axes"], case["params"], 1)


def _cloned(data):
    return _replaced(data, {{p: v.clone() for p, v in _leaves(data) if isinstance(v, torch.Tensor)}})


def _answer(data):
    with torch.no_grad(), _Inside():
        return _problem.ref_kernel(data)


def _kinds(path, cases):
    """Return the type that holds all others, then those in which a tensor is made."""
    kinds = sorted({{case["kinds"][path] for case in cases if path in case["kinds"]}})
    if len(kinds) < 2:
        return kinds
    wide = getattr(torch, kinds[0][6:])
    for kind in kinds[1:]:
        wide = torch.promote_types(wide, getattr(torch, kind[6:]))
    return [str(wide)[6:], *(kind[6:] for kind in kinds)]


def _differs(path, cases):
    return any(case["constants"].get(path) != cases[0]["constants"][path] for case in cases)


def _flag(path, cases):
    """Return what becomes of a value that differs: it is left out, always the same, or an input.

    A program is not to be told what the tensors hold. So where the reference gives the same with one value in all
    cases, programs get that one; where it gives the same with any, none.
    """
    values = []
    for case in cases:
        if case["constants"][path] not in values:
            values.append(case["constants"][path])
    smallest = [next(case for case in cases if case["constants"][path] == value) for value in values]
    made = [_data_of(case) for case in smallest]
    fitting = [value for value in values if all(_same_answer(data, path, value) for data in made)]
    if len(fitting) == len(values) and _in_dict(made[0], path):
        return ["left out"]
    if fitting:
        return ["always", fitting[0] if len(fitting) < len(values) or not isinstance(fitting[0], bool) else False]
    return ["input"] if all(isinstance(value, bool) for value in values) else ["differs"]


def _in_dict(data, path):
    for step in path[:-1]:
        data = data[step]
    return isinstance(data, dict)


def _same_answer(data, path, value):
    try:
        answers = [list(_leaves(_answer(_cloned(_replaced(data, given))))) for given in ({{}}, {{path: value}})]
    except Exception:
        return False
    return len(answers[0]) == len(answers[1]) and all(_close(a, b) for (_, a), (_, b) in zip(*answers))


def _close(a, b):
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a == b
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.double(), b.double(), equal_nan=True)


def _named(path, buffer):
    import re

    words = [str(step) for step in path if isinstance(step, str)] or ["data", *map(str, path)]
    name = re.sub(r"[^A-Za-z0-9_]", "_", "_".join(words))
    if name[:1].isdigit() or not name:
        name = "data_" + name
    return {buffer!r} + "_" + name if buffer else name


def _shape(data, names, flags, path=()):
    if isinstance(data, dict):
        held = [key for key in data if flags.get((*path, key)) != ["left out"]]
        return ["dict", [[key, _shape(data[key], names, flags, (*path, key))] for key in held]]
    if isinstance(data, (tuple, list)):
        return [type(data).__name__ if type(data) in (tuple, list) else "tuple",
                [_shape(item, names, flags, (*path, place)) for place, item in enumerate(data)]]
    if path in flags:
        return ["flag", names[path]] if path in names else ["constant", flags[path][-1]]
    if not _is_flat(data) and not isinstance(data, (str, bool, type(None))):
        raise _Refused(f"generate_input: puts a {{type(data).__name__}} into its data, neither tensor, number nor word")
    return ["input", names[path]] if path in names else ["constant", data]
'''
CALLS = '''

_LEAVES = {leaves!r}
_PROMOTED = {promoted!r}


def inputs(axes, params, seed):
    """Return the numbers and tensors of `data` by name, each in one type, whatever the case."""
    values = dict(_leaves(_generated(axes, params, seed)))
    return {{name: _typed(name, values[tuple(path)]) for path, name in _LEAVES if name is not None}}


def _typed(name, value):
    if name in _PROMOTED:
        return value.to(getattr(torch, _PROMOTED[name]))
    return int(value) if isinstance(value, bool) else value


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
    if kind == "flag":
        return bool(value)
    return torch.empty_like(value) if content.startswith({buffer!r}) else value
'''
WRAPPER = """import torch
{data}

_NAMES = {names!r}


def call(*values):
    answer = _program(_data(dict(zip(_NAMES, values, strict=True))))
    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer
"""
