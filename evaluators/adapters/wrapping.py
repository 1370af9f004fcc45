"""Programs that are called in another format's way: a wrapper beside them takes our flat arguments."""

from collections.abc import Mapping

from evaluators.solution import Solution

WRAPPER_FILE = "ksearch_wrapper.py"
WRAPPER_ENTRY = "call"
_LOADING = '''"""Calls the program beside it in the way of its format; written by ksearch."""

import importlib.util
import os
import sys


def _load():
    path = os.path.join(os.path.dirname(__file__), {main!r})
    spec = importlib.util.spec_from_file_location({module!r}, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[{module!r}] = module
    spec.loader.exec_module(module)
    if not hasattr(module, {entry!r}):
        raise AttributeError("the program defines no {entry}")
    return getattr(module, {entry!r})


'''
_LOADED = "\n\n_program = _load()\n"


def wrapped(solution: Solution, wrapper: str) -> tuple[Mapping[str, str], str, str]:
    """Return files, main file and entry point of `solution` with a wrapper around it.

    `wrapper` defines `call(*inputs)`, which returns the outputs, and finds what the program defines as `_program`.
    """
    names = {"main": solution.main_file, "entry": solution.entry_point, "module": "submission"}
    return {**solution.files, WRAPPER_FILE: _LOADING.format(**names) + wrapper + _LOADED}, WRAPPER_FILE, WRAPPER_ENTRY
