"""A Python file that somebody brings: its text, and what can be told of it without running it."""

import ast
import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from evaluators.errors import TaskError
from evaluators.task_file import one_line, read_text

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """One file. Every method raises TaskError, one line that names the file and what in it is wrong."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> "SourceFile":
        """Read the file; it must be text in UTF-8, of at most a mebibyte, and no link out of its folder."""
        return cls(path, read_text(path.parent, path.name))

    def beside(self, constant: str, name: str) -> str:
        """Return the text of a file beside this one, which `constant` names."""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            self.refuse(f"{constant}: {name!r} is not the name of a file beside this one")
        try:
            return read_text(self.path.parent, name)
        except TaskError as error:
            self.refuse(f"{constant}: {error}")

    def refuse(self, reason: str) -> NoReturn:
        """Raise TaskError with the file's name before the reason."""
        raise TaskError(one_line(f"{self.path}: {reason}"))

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except SyntaxError as error:
            self.refuse(f"line {error.lineno or 1}: {error.msg}")
        except (ValueError, RecursionError, MemoryError) as error:
            self.refuse(f"is not Python: {str(error) or 'nested too deeply'}")

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions of the module; of two of one name the last."""
        return {node.name: node for node in self.tree.body if isinstance(node, Function)}

    @cached_property
    def classes(self) -> frozenset[str]:
        """Names of the classes of the module."""
        return frozenset(node.name for node in self.tree.body if isinstance(node, ast.ClassDef))

    @property
    def docstring(self) -> str:
        """What the module says of itself."""
        return ast.get_docstring(self.tree) or ""

    def parameters(self, function: str) -> tuple[str, ...]:
        """Return a function's parameters, all of which can be given by name."""
        node = self.functions[function]
        arguments = node.args
        if isinstance(node, ast.AsyncFunctionDef):
            self.refuse(f"{function}: must be a plain function, it is async")
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
            self.refuse(f"{function}: must name each of its parameters (no *, ** or /)")
        return tuple(argument.arg for argument in (*arguments.args, *arguments.kwonlyargs))

    def required(self, function: str) -> tuple[str, ...]:
        """Return those of a function's parameters that have no default."""
        arguments = self.functions[function].args
        named = arguments.args[: len(arguments.args) - len(arguments.defaults)]
        alone = [a for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
        return tuple(argument.arg for argument in (*named, *alone))

    def defaults(self, function: str) -> dict[str, Any]:
        """Return the defaults of a function's parameters that are written out; others are left out."""
        arguments = self.functions[function].args
        named = [argument.arg for argument in arguments.args]
        pairs = [*zip(named[len(named) - len(arguments.defaults) :], arguments.defaults, strict=True)]
        pairs += [(a.arg, node) for a, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if node]
        found = {}
        for name, node in pairs:
            try:
                found[name] = ast.literal_eval(node)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
        return found

    def constants(self, known: Sequence[str]) -> dict[str, Any]:
        """Return the values of the module's constants among `known`, which must be written out."""
        found: dict[str, Any] = {}
        for node in self.tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = target.id if isinstance(target, ast.Name) else ""
                if name in known:
                    found[name] = self._literal(name, node.value)
                elif name.isupper():
                    self._check_spelling(name, known)
        return found

    def _literal(self, name: str, node: ast.expr | None) -> Any:
        try:
            return ast.literal_eval(node) if node is not None else None
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            self.refuse(f"{name}: must be written out (numbers, texts, lists, dicts): it is read without running it")

    def _check_spelling(self, name: str, known: Sequence[str]) -> None:
        close = difflib.get_close_matches(name, known, 1, 0.85)
        if close:
            self.refuse(f"{name}: unknown constant; did you mean {close[0]!r}?")
