"""The library of prompts: a variant is a folder of templates, and gets what it lacks from the variant it extends.

    variants/NAME/variant.toml   description, and optionally extends = "OTHER" and beyond_paper = false
    variants/NAME/**/*.md        jinja2 templates
    languages/*.md               templates below every variant; variants/NAME/languages/*.md stand above them

A variable that a template names and nobody gives is an error.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jinja2
from pydantic import ValidationError

from evaluators.digest import digest_bytes, digest_json
from evaluators.errors import UsageError
from evaluators.invalid import first_problem
from evaluators.objective import Record
from prompts.filters import fenced, figure, one_line, times

HERE = Path(__file__).resolve().parent
VARIANTS = HERE / "variants"
LANGUAGES = HERE / "languages"
MAX_CHAIN = 8
"""How many variants may extend one another in a row."""


class _Header(Record):
    """variant.toml."""

    description: str
    extends: str = ""
    beyond_paper: bool | None = None
    """See `Variant`; left out: as in the variant it extends, else true."""


@dataclass(frozen=True, eq=False)
class Variant:
    """A set of templates, with those of the variants it extends already filled in."""

    name: str
    description: str
    chain: tuple[str, ...]
    """The variant itself, then what it extends, nearest first."""
    files: Mapping[str, str]
    """Template -> text, sorted by name."""
    origin: Mapping[str, str]
    """Template -> the variant that it comes from; `languages` for what lies below all of them."""
    beyond_paper: bool = True
    """Whether planners are asked for what the paper does not have: difficulty, predicted gain and confidence of every
    intent, and re-opening nodes."""

    @cached_property
    def digest(self) -> str:
        """Identity of the templates' texts (64 hex digits)."""
        return digest_json(dict(self.files))

    @cached_property
    def _environment(self) -> jinja2.Environment:
        environment = jinja2.Environment(
            loader=jinja2.DictLoader(dict(self.files)),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
            auto_reload=False,
        )
        environment.filters.update(figure=figure, times=times, fenced=fenced, one_line=one_line)
        return environment

    def text(self, template: str) -> str:
        """Return a template as it is written. Raises UsageError for one that does not exist (names the nearest)."""
        if template not in self.files:
            raise UsageError(f"prompt variant {self.name}: no template {template!r}{_nearest(template, self.files)}")
        return self.files[template]

    def render(self, template: str, **values: Any) -> str:
        """Return the text of a template, without white space at its ends.

        Raises UsageError, naming variant and template, for a template that does not exist or is wrong, and for a
        variable in it that `values` lacks.
        """
        self.text(template)
        try:
            return self._environment.get_template(template).render(**values).strip()
        except jinja2.TemplateError as error:
            raise UsageError(f"prompt variant {self.name}, {template}: {one_line(str(error))}") from error


def variants(root: Path = VARIANTS) -> tuple[Variant, ...]:
    """Return every variant, sorted by name."""
    return tuple(load_variant(name, root) for name in _names(root))


@lru_cache(maxsize=64)
def load_variant(name: str, root: Path = VARIANTS) -> Variant:
    """Return a variant. Its files are read once per process, so that a running search keeps its prompts.

    Raises UsageError for an unknown name (names the nearest), a wrong variant.toml, or variants that extend one
    another in a circle.
    """
    headers: dict[str, _Header] = {}
    wanted: str | None = name
    while wanted is not None:
        if wanted in headers or len(headers) == MAX_CHAIN:
            raise UsageError(f"prompt variant {name}: {' extends '.join([*headers, wanted])}, which has no end")
        headers[wanted] = _header(wanted, root)
        wanted = headers[wanted].extends or None
    layers = [("languages", _texts(LANGUAGES, "languages/"))]
    layers += [(layer, _texts(root / layer, "")) for layer in reversed(headers)]
    files = {file: text for _, texts in layers for file, text in texts.items()}
    origin = {file: layer for layer, texts in layers for file in texts}
    return Variant(
        name=name,
        description=headers[name].description,
        chain=tuple(headers),
        files=dict(sorted(files.items())),
        origin=dict(sorted(origin.items())),
        beyond_paper=next((it.beyond_paper for it in headers.values() if it.beyond_paper is not None), True),
    )


def diff_variants(before: Variant, after: Variant) -> dict[str, str]:
    """Return template -> unified diff of every template that differs or that only one of the two has."""
    diffs = {}
    for file in sorted({*before.files, *after.files}):
        old, new = (variant.files.get(file, "").splitlines(keepends=True) for variant in (before, after))
        lines = difflib.unified_diff(old, new, f"{before.name}/{file}", f"{after.name}/{file}")
        if text := "".join(line if line.endswith("\n") else f"{line}\n" for line in lines):
            diffs[file] = text
    return diffs


def prompt_digest(*texts: str) -> str:
    """Return the identity of a rendered prompt: of its one text, or of several in their order (64 hex digits)."""
    return digest_bytes(texts[0].encode("utf-8", "surrogatepass")) if len(texts) == 1 else digest_json(list(texts))


def _names(root: Path) -> list[str]:
    return sorted(folder.name for folder in root.iterdir() if (folder / "variant.toml").is_file())


def _header(name: str, root: Path) -> _Header:
    names = _names(root)
    if name not in names:
        raise UsageError(f"prompt variant {name!r} is unknown{_nearest(name, names)}")
    file = root / name / "variant.toml"
    try:
        return _Header.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise UsageError(f"{file}: {first_problem(error)}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file}: {one_line(str(error))}") from error


def _texts(folder: Path, prefix: str) -> dict[str, str]:
    return {
        f"{prefix}{file.relative_to(folder).as_posix()}": file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*.md"))
    }


def _nearest(name: str, known: Mapping[str, str] | list[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return f"; did you mean {close[0]!r}?" if close else ""
