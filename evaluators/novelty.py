"""The novelty key: programs with equal keys differ in nothing but comments and layout, so that one evaluation does.

The reading is lexical and errs on one side: what it does not understand it keeps to the letter. Programs that compile
to the same may be told apart; programs that do not are never taken for each other. (Line numbers, as `__LINE__` and
messages of failed assertions show them, count as layout.)
"""

import io
import re
import tokenize

from evaluators.digest import digest_json
from evaluators.solution import Solution

_C_LIKE = ("cpp", "cuda")
_C_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inl")

_C_TOKEN = re.compile(
    r"""
      (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^\s()\\"]{0,16})\(.*?(?:\)(?P=fence)"\w*|\Z))
    | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<text>(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*(?:"\w*|$)|'(?:[^'\\\n]|\\.)*(?:'\w*|$)))
    | (?P<header>\#[ \t]*include[ \t]*(?P<target><[^>\n]*(?:>|$)|"[^"\n]*(?:"|$)))
    | (?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    | (?P<name>\w+)
    | (?P<newline>\n)
    | (?P<space>[ \t\f\v]+)
    | (?P<sign>\#\#|\#|%:%:|%:|<%|%>|<:|:>|<<<|>>>|<=>|<<=|>>=|->\*|->|\.\.\.|\.\*|::|\+\+|--|<<|>>|&&|\|\|
               |[-+*/%&|^=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_SPLICE = re.compile(r"\\[ \t\f\v]*\n")
_INDENTED_BY_CONTINUATION = re.compile(r"^[ \t\f]*\\\n", re.MULTILINE)
"""A line of Python that holds nothing but `\\`: the parser and `tokenize` differ on how the next one is indented."""
_SPACE = " "
_DIRECTIVE = "\n#"
_DIRECTIVE_END = "\n"
_CALL = "("
_STRINGIFY = "#"
_HASHES = ("#", "%:")
_PASTES = ("##", "%:%:")
_PYTHON_SKIPPED = frozenset({"COMMENT", "NL", "ENDMARKER"})
_PYTHON_LAYOUT = frozenset({"INDENT", "DEDENT", "NEWLINE"})
_OPENERS = frozenset({"FSTRING_START", "TSTRING_START"})
_CLOSERS = frozenset({"FSTRING_END", "TSTRING_END"})
"""Tokens that Python 3.12 and later split formatted strings into."""


def novelty_key(solution: Solution) -> str:
    """Return 64 hex digits that are equal only for programs that differ in nothing but comments and layout.

    Files with their names, language, entry point, binding and flags are part of it. So are strings, and the values of
    knobs: those stand in the code or in the flags. What a knob's declaration allows is a comment.
    """
    files = {name: _normal(name, text, solution) for name, text in solution.files.items()}
    if not any(_STRINGIFY in tokens for tokens in files.values()):
        files = {name: [token for token in tokens if token != _SPACE] for name, tokens in files.items()}
    return digest_json(
        {
            "files": files,
            "main_file": solution.main_file,
            "language": solution.language,
            "entry_point": solution.entry_point,
            "binding": solution.binding,
            "flags": list(solution.flags),
        }
    )


def _normal(name: str, text: str, solution: Solution) -> list[str]:
    if name.endswith(_C_SUFFIXES) or (name == solution.main_file and solution.language in _C_LIKE):
        return _c_tokens(text)
    if name.endswith(".py") or name == solution.main_file:
        return _python_tokens(text)
    return [f"={text}"]


def _c_tokens(text: str) -> list[str]:
    """Return the tokens of C, C++ or CUDA source, each literal one with `=` before it.

    Comments and layout are reduced to `_SPACE` between tokens: it matters where a macro turns an argument into a
    string. Ends of lines matter in preprocessor directives, and there whether `(` follows a macro's name at once.
    """
    spliced = _SPLICE.sub("", text)
    if spliced != text and 'R"' in text:
        return [f"={text}"]  # lines are not spliced in raw strings, and finding those takes a real lexer
    reader = _Reader()
    for match in _C_TOKEN.finditer(spliced):
        kind, token = match.lastgroup, match[0]
        if kind == "newline":
            reader.newline()
        elif kind == "space" or (kind == "comment" and not _endless(token)):
            reader.gap = True
        else:
            reader.token(f"#include {match['target']}" if kind == "header" else token)
    reader.newline()
    return reader.tokens


def _endless(comment: str) -> bool:
    return comment.startswith("/*") and not (comment.endswith("*/") and len(comment) >= 4)


class _Reader:
    """Gathers tokens, and of the layout between them what matters."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.gap = False
        """Whether space or a comment stands before the next token."""
        self._first = True
        """Whether the next token is the first of its line."""
        self._directive: list[str] | None = None
        """Tokens of the preprocessor directive so far; None outside of one."""

    def newline(self) -> None:
        """End the line."""
        if self._directive is not None:
            self.tokens.append(_DIRECTIVE_END)
            self._directive = None
        self._first = self.gap = True

    def token(self, token: str) -> None:
        """Take one token that is neither layout nor a comment."""
        if self._first and token.startswith(_HASHES):
            self._directive = []
            self.tokens.append(_DIRECTIVE)
        elif self._directive is not None:
            if token.startswith(_HASHES) and token not in _PASTES:
                self.tokens.append(_STRINGIFY)
            if token == "(" and not self.gap and self._directive[:1] == ["define"] and len(self._directive) == 2:
                self.tokens.append(_CALL)
            self._directive.append(token)
        if self.gap:
            self.tokens.append(_SPACE)
        self.tokens.append(f"={token}")
        self._first = self.gap = False


def _python_tokens(text: str) -> list[str]:
    """Return the tokens of Python source, each literal one with `=` before it; the exact text when it is none."""
    if _INDENTED_BY_CONTINUATION.search(text):
        return [f"={text}"]
    try:
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return [f"={text}"]
    tokens: list[str] = []
    depth, end = 0, (0, 0)
    for token in found:
        name = tokenize.tok_name[token.type]
        if depth and token.start != end:  # in f"{x = }" spaces are part of the value
            tokens.append(f" {token.start[0] - end[0]} {token.start[1] - end[1]}")
        depth += (name in _OPENERS) - (name in _CLOSERS)
        end = token.end
        if name not in _PYTHON_SKIPPED:
            kind = name if depth else ""  # "{" is another thing in f"{{" than in f"{x}"
            tokens.append(name if name in _PYTHON_LAYOUT else f"{kind}={token.string}")
    return tokens
