"""The library: variants as data, their chains, what they say to mistakes."""

from pathlib import Path

import pytest

from evaluators.errors import UsageError
from prompts.filters import fenced, figure, one_line, times
from prompts.library import diff_variants, load_variant, prompt_digest, variants
from prompts.sheets import load_sheet, sheets


def write(root: Path, name: str, header: str, **files: str) -> None:
    folder = root / name
    folder.mkdir()
    (folder / "variant.toml").write_text(header)
    for file, text in files.items():
        (folder / f"{file}.md").write_text(text)


def test_the_shipped_variants() -> None:
    found = {variant.name: variant for variant in variants()}
    assert list(found) == ["default", "paper", "terse"]
    assert found["paper"].chain == ("paper", "default")
    assert (found["paper"].beyond_paper, found["terse"].beyond_paper) == (False, True)
    assert all(variant.description for variant in found.values())
    assert len({variant.digest for variant in found.values()}) == 3


def test_an_unknown_variant_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="prompt variant 'ters' is unknown; did you mean 'terse'"):
        load_variant("ters")


@pytest.mark.parametrize("name", ["", ".", "..", "../variants/default", "/etc"])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(UsageError, match="is unknown"):
        load_variant(name)


def test_files_are_resolved_one_by_one_along_the_chain(tmp_path: Path) -> None:
    write(tmp_path, "a", 'description = "a"\nbeyond_paper = false', one="a1", two="a2", three="a3")
    write(tmp_path, "b", 'description = "b"\nextends = "a"', two="b2", three="b3")
    write(tmp_path, "c", 'description = "c"\nextends = "b"', three="c3 {% include 'one.md' %}")
    variant = load_variant("c", tmp_path)
    assert variant.chain == ("c", "b", "a")
    assert [variant.render(name) for name in ("one.md", "two.md", "three.md")] == ["a1", "b2", "c3 a1"]
    assert (variant.origin["one.md"], variant.origin["three.md"]) == ("a", "c")
    assert variant.origin["languages/cpp.md"] == "languages"
    assert not variant.beyond_paper


def test_a_variant_may_stand_above_the_conventions_of_a_language(tmp_path: Path) -> None:
    write(tmp_path, "a", 'description = "a"')
    (tmp_path / "a/languages").mkdir()
    (tmp_path / "a/languages/cpp.md").write_text("short")
    variant = load_variant("a", tmp_path)
    assert variant.render("languages/cpp.md") == "short"
    assert variant.origin["languages/cuda.md"] == "languages"


def test_variants_that_extend_one_another_in_a_circle_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a", 'description = "a"\nextends = "b"')
    write(tmp_path, "b", 'description = "b"\nextends = "a"')
    with pytest.raises(UsageError, match="a extends b extends a"):
        load_variant("a", tmp_path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('description = "a"\nextend = "b"', "extend"),
        ('extends = "b"', "did you mean|description"),
        ("description =", "variant.toml"),
        ('description = "a"\nextends = "missing"', "'missing' is unknown"),
    ],
)
def test_a_wrong_header_names_what_is_wrong(tmp_path: Path, header: str, message: str) -> None:
    write(tmp_path, "a", header)
    with pytest.raises(UsageError, match=message):
        load_variant("a", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "{{ missing }}",
        "{% if missing %}x{% endif %}",
        "{{ missing | figure }}",
        "{{ missing | times }}",
        "{{ missing | fenced }}",
        "{{ missing | one_line }}",
        "{% for x in missing %}{% endfor %}",
        "{{ given.missing }}",
    ],
)
def test_a_variable_that_nobody_gives_is_an_error(tmp_path: Path, text: str) -> None:
    write(tmp_path, "a", 'description = "a"', one=text)
    with pytest.raises(UsageError, match=r"prompt variant a, one\.md: .*missing"):
        load_variant("a", tmp_path).render("one.md", given={})


@pytest.mark.parametrize("text", ["{% if %}", "{{ x | nosuchfilter }}", "{% include 'nosuch.md' %}", "{% endif %}"])
def test_a_wrong_template_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    write(tmp_path, "a", 'description = "a"', one=text)
    with pytest.raises(UsageError, match=r"prompt variant a, one\.md: "):
        load_variant("a", tmp_path).render("one.md", x=1)


def test_an_unknown_template_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no template 'node'; did you mean 'node\.md'"):
        load_variant("default").render("node")


def test_values_are_never_taken_for_templates(tmp_path: Path) -> None:
    write(tmp_path, "a", 'description = "a"', one="{{ text }}")
    assert load_variant("a", tmp_path).render("one.md", text="{{ 1 + 1 }} {% if %} <b>&") == "{{ 1 + 1 }} {% if %} <b>&"


def test_a_diff_shows_every_file_that_differs_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, "a", 'description = "a"', one="x\ny\n", two="same", three="gone\n")
    write(tmp_path, "b", 'description = "b"', one="x\nz\n", two="same", four="new")
    found = diff_variants(load_variant("a", tmp_path), load_variant("b", tmp_path))
    assert list(found) == ["four.md", "one.md", "three.md"]
    assert "--- a/one.md\n+++ b/one.md\n" in found["one.md"]
    assert "-y\n+z\n" in found["one.md"]
    assert found["four.md"].endswith("+new\n")


def test_digests_tell_prompts_apart() -> None:
    assert prompt_digest("a") != prompt_digest("b")
    assert prompt_digest("ab", "c") != prompt_digest("a", "bc")
    assert prompt_digest("half a pair: \ud800") == prompt_digest("half a pair: \ud800")


@pytest.mark.parametrize(
    ("text", "fence"), [("plain", "```"), ("a ``` b", "````"), ("`````\ncode\n`````", "``````"), ("", "```")]
)
def test_a_fence_is_longer_than_any_in_the_text(text: str, fence: str) -> None:
    lines = fenced(text, "cpp").split("\n")
    assert (lines[0], lines[-1]) == (f"{fence}cpp", fence)
    assert "\n".join(lines[1:-1]) == text


def test_figures() -> None:
    assert [figure(None), figure(1234567.0), figure(0.00012345), figure(2)] == [
        "not measured",
        "1.235e+06",
        "0.0001234",
        "2",
    ]
    assert [times(None), times(1.25)] == ["not measured", "x1.25"]
    assert one_line(" a\n\tb ") == "a b"


def test_sheets_hold_public_figures_of_what_they_name() -> None:
    assert sheets() == ("a100", "b200", "cpu", "gpu", "h100", "h200")
    h100, h200, a100 = load_sheet("h100"), load_sheet("h200"), load_sheet("a100")
    assert (h100.multiprocessors, h200.multiprocessors, a100.multiprocessors) == (132, 132, 108)
    assert h100.peaks == h200.peaks
    # 2 operations per fused multiply-add, 128 (A100: 64) lanes per multiprocessor, at the boost clock.
    for sheet, lanes in ((h100, 128), (h200, 128), (a100, 64)):
        assert sheet.multiprocessors is not None
        assert sheet.boost_mhz is not None
        assert sheet.peaks["fp32"] == pytest.approx(sheet.multiprocessors * lanes * 2 * sheet.boost_mhz / 1e6, rel=0.01)
    assert load_sheet("cpu").kind == "cpu"


def test_an_unknown_sheet_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="hardware sheet 'h10' is unknown; did you mean 'h100'"):
        load_sheet("h10")
