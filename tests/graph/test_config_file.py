from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import UsageError
from graph.config_file import load_options, parse_set


def test_a_file_sets_options(tmp_path: Path) -> None:
    file = tmp_path / "search.toml"
    file.write_text('task = "softmax"\nwidth = 2\nmax_usd = 1.5\nnovelty = true\n')
    assert load_options(file) == {"task": "softmax", "width": 2, "max_usd": 1.5, "novelty": True}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"width = \n", "{file}: is not TOML: Invalid value (at line 1, column 9)"),
        (b'task = "\xff"\n', "{file}: is not TOML: 'utf-8' codec can't decode byte 0xff in position 8"),
        (b"[search]\nwidth = 2\n", "{file}: search: options are plain `key = value` lines, not tables"),
    ],
)
def test_a_bad_file_is_named_with_key_and_reason(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "search.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_options(file)
    assert str(caught.value).startswith(message.format(file=file))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read: No such file"):
        load_options(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("width=3", "width", 3),
        ("max_usd = 0.5", "max_usd", 0.5),
        ("novelty=true", "novelty", True),
        ("task=softmax", "task", "softmax"),
        ('task="3"', "task", "3"),
        ("task=/a path/with=equals", "task", "/a path/with=equals"),
        ("task=", "task", ""),
        ("task=1\nwidth=2", "task", "1\nwidth=2"),
        ("sample_cap=none", "sample_cap", "none"),
    ],
)
def test_values_are_toml_or_else_text(text: str, key: str, value: Any) -> None:
    parsed = parse_set(text)
    assert parsed == (key, value)
    assert type(parsed[1]) is type(value)


@pytest.mark.parametrize("text", ["width", "=3", " = 3", ""])
def test_without_key_or_equals_it_is_no_option(text: str) -> None:
    with pytest.raises(UsageError, match="write it as key=value"):
        parse_set(text)
