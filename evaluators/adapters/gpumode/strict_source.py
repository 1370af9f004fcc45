"""The sources of a GPU MODE problem's strict task: texts of the modules in `sources`, and lines that use them.

`data` is taken apart into flat inputs where references run, and put together again for the program.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SOURCES = Path(__file__).parent / "sources"
_EACH_OTHER = re.compile(rf"^from {re.escape(f'{__package__}.sources')}\.\w+ import (\([^)]*\)|.*)\n", re.MULTILINE)
_PROBE = """

_survey = Survey(Problem({files!r}, {device!r}))
about = _survey.about


def inputs(axes, params, seed):
    _survey.look(axes, params, seed)
    return dict(x=torch.ones(1))


def reference(x):
    return x
"""
_FILES = '''"""A GPU MODE problem, with what turns its `data` into flat arguments."""

_FILES = {files!r}

'''
_CALLS = '''

_LEAVES = {leaves!r}
_PROMOTED = {promoted!r}
_SHAPE = {shape!r}
_problem = Problem(_FILES, {device!r})


def inputs(axes, params, seed):
    """Return the numbers and tensors of `data` by name."""
    return arguments(_problem.generated(axes, params, seed), _LEAVES, _PROMOTED)


def reference(**values):
    """Return what the problem's reference returns for the same `data`."""
    return result(_problem.answer(together(_SHAPE, values)))
'''
_WRAPPER = """

_NAMES = {names!r}
_SHAPE = {shape!r}


def call(*values):
    return result(_program(together(_SHAPE, dict(zip(_NAMES, values, strict=True)))))
"""


def probe_source(files: Mapping[str, str], device: str) -> str:
    """Return a reference whose `about` tells of the problem's data (sources/about.py) after `inputs` of every case."""
    return _texts("problem", "apart", "together", "shape", "about") + _PROBE.format(files=dict(files), device=device)


def reference_source(files: Mapping[str, str], device: str, about: Mapping[str, Any]) -> str:
    """Return the task's reference: the problem's modules, called with flat inputs, as `about` says."""
    promoted = {name: kinds[0] for name, kinds in about["promoted"].items()}
    calls = _CALLS.format(device=device, leaves=about["leaves"], promoted=promoted, shape=about["shape"])
    return _FILES.format(files=dict(files)) + _texts("problem", "apart", "together") + calls


def wrapper_source(names: Sequence[str], about: Mapping[str, Any]) -> str:
    """Return the wrapper of programs: no more than puts `data` together of the inputs `names`."""
    return _texts("together") + _WRAPPER.format(shape=about["shape"], names=list(names))


def _texts(*modules: str) -> str:
    """Return the modules' texts without the lines by which they import each other: their names are all in one place."""
    return _EACH_OTHER.sub("", "\n\n".join((_SOURCES / f"{module}.py").read_text() for module in modules))
