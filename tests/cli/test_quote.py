"""`run --quote`: an estimate whose parts can be checked by hand, made without asking anybody."""

from pathlib import Path
from typing import Any

import pytest

from graph.config import SearchConfig
from graph.presets import resolve
from graph.report.quote import Asked, Prompts, cycle_lengths, plan_of, quote, quote_lines, shares
from nodes.pricing import Price
from tests.cli.conftest import Call
from tests.cli.talking import asked, coder, planner

PRICE = Price(input=2.0, cached=0.2, output=10.0)
PROMPTS = Prompts(system=4000, first=400, later=(800, 1200))


def config(**options: Any) -> SearchConfig:
    return resolve("default", {"stagnation": 5, "sample_cap": 10, "max_evaluations": 40, **options})


def quoted(roles: dict[str, Any], seed_chars: int = 0, **options: Any) -> dict[str, Any]:
    return quote(config(**options), roles, seed_chars)


def test_cycles_are_whole_rounds() -> None:
    assert cycle_lengths(config()) == (5, 10)
    assert cycle_lengths(config(samples=4)) == (8, 12)
    assert cycle_lengths(config(sample_cap=None)) == (5, 15)
    assert cycle_lengths(config(sample_cap=3)) == (3, 3)


def test_questions_follow_from_the_budget_and_the_cycles() -> None:
    low, high = plan_of(config(), "low"), plan_of(config(), "high")
    # 40 samples are four cycles of ten, after the last of which no plan is asked for.
    assert (low.planner, low.coder, low.rounds) == (4, 40, 40)
    # A fifth of 50 samples is wasted; cycles of five then end ten times.
    assert (high.planner, high.coder, high.rounds) == (11, 50, 50)
    assert plan_of(config(width=2), "low").planner == 2
    assert plan_of(config(width=2, samples=2), "low").rounds == 10
    assert plan_of(config(frozen_world_model=True), "high").planner == 1
    assert plan_of(config(max_evaluations=0), "high").planner == 1
    assert plan_of(config(max_evaluations=0), "high").coder == 0


def test_tokens_and_price_by_hand() -> None:
    facts = quoted({"planner": (PROMPTS, [Asked("m", None, PRICE)])}, max_corrections=0, frozen_world_model=True)
    (row,) = facts["roles"]
    assert row["calls"] == {"low": 1, "high": 1}
    # (4000 + 400) characters; and 500 tokens are a short plan without reasoning, 2000 + 8000 a long one with.
    assert row["input_tokens"]["low"] == 1100
    assert row["output_tokens"] == {"low": 500, "high": 10_000}
    assert row["usd"]["low"] == pytest.approx((1100 * 2 + 500 * 10) / 1e6, abs=1e-4)
    assert row["usd"]["high"] > row["usd"]["low"]
    assert facts["total"]["usd"] == row["usd"]


def test_the_stable_prefix_is_cheaper_at_the_low_end() -> None:
    stage = [Asked("m", None, PRICE)]
    dear = [Asked("m", None, Price(input=2.0, output=10.0))]
    cheap, full = (quoted({"coder": (PROMPTS, which)})["roles"][0]["usd"] for which in (stage, dear))
    # 39 of 40 calls read 1000 tokens from the cache, at 0.2 instead of 2 dollars for a million.
    assert full["low"] - cheap["low"] == pytest.approx(39 * 1000 * 1.8 / 1e6, abs=1e-3)
    assert full["high"] == cheap["high"]


def test_a_schedule_shares_the_rounds() -> None:
    stages = [Asked("a", 10, PRICE), Asked("b", 30, None), Asked("c", None, None, free=True)]
    assert shares(stages, 40) == [0.25, 0.5, 0.25]
    assert shares(stages, 20) == [0.5, 0.5, 0.0]
    assert shares(stages, 0) == [0.0, 0.0, 0.0]
    facts = quoted({"coder": (PROMPTS, stages)}, max_corrections=0)
    assert [row["calls"]["low"] for row in facts["roles"]] == [10, 20, 10]
    assert [row["usd"] is None for row in facts["roles"]] == [False, True, False]
    assert facts["unknown_prices"] == ["b"]
    assert facts["roles"][2]["usd"] == {"low": 0, "high": 0}


def test_the_first_plan_is_the_first_stage_s_alone() -> None:
    stages = [Asked("a", 0, PRICE), Asked("b", None, PRICE)]
    facts = quoted({"planner": (PROMPTS, stages)}, max_corrections=0)
    assert [row["calls"]["low"] for row in facts["roles"]] == [1, 3]


def test_limits_of_replies_and_of_money() -> None:
    roles = {"coder": (PROMPTS, [Asked("m", None, None)])}
    limited = quoted(roles, max_output_tokens=100, max_corrections=0, max_usd=2.5, max_tokens=1000)
    assert limited["roles"][0]["output_tokens"] == {"low": 40 * 100, "high": 50 * 100}
    lines = [f"{label}: {text}" for label, text in quote_lines(limited)]
    assert "limit: the search stops at 2.5 US dollars" in lines
    assert "limit: the search stops at 1000 tokens" in lines
    assert "limit: US dollars do not limit m: set max_tokens or max_wall_s" in lines
    assert limited["total"]["usd"] is None
    assert any("unknown price" in line for line in lines)


@pytest.mark.parametrize("options", [{}, {"width": 4, "samples": 2}, {"sample_cap": None}, {"max_evaluations": 1}])
@pytest.mark.parametrize("seed_chars", [0, 500, 20_000])
def test_low_is_never_above_high(options: dict[str, Any], seed_chars: int) -> None:
    stage = [Asked("m", None, PRICE)]
    facts = quoted({"planner": (PROMPTS, stage), "coder": (PROMPTS, stage)}, seed_chars, **options)
    for row in (*facts["roles"], facts["total"]):
        for name in ("calls", "input_tokens", "output_tokens", "usd"):
            assert 0 < row[name]["low"] <= row[name]["high"], name


def test_nobody_is_asked_and_no_run_begins(ksearch: Call, tmp_path: Path) -> None:
    models = ("--planner", planner(tmp_path), "--coder", coder(tmp_path, "objective = 1.5"))
    done = ksearch("run", "scripted", *models, "--quote", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["unknown_prices"] == ["exec:./coder.py", "exec:./planner.py"]
    assert done.json["total"]["usd"] is None
    assert (asked(tmp_path, "planner.py"), asked(tmp_path, "coder.py")) == (0, 0)
    assert not (tmp_path / ".ksearch").exists()


def test_a_real_search_stays_within_the_range(ksearch: Call, tmp_path: Path) -> None:
    models = ("--planner", planner(tmp_path), "--coder", coder(tmp_path, "objective = 1.5", None, "status = timeout"))
    run = ("run", "scripted", *models, "--evaluator", "scripted", "--evaluations", 8, "--set", "stagnation=2")
    rows = {row["role"]: row["calls"] for row in ksearch(*run, "--quote", "--json").json["roles"]}
    assert ksearch(*run).code == 0
    for role, name in (("planner", "planner.py"), ("coder", "coder.py")):
        assert rows[role]["low"] <= asked(tmp_path, name) <= rows[role]["high"], role


def test_a_known_price_and_its_date(ksearch: Call) -> None:
    models = ("--planner", "google_genai:gemini-2.5-flash", "--coder", "openai:gpt-5.2 until 10, openai:gpt-5-mini")
    done = ksearch("run", "softmax", *models, "--quote", "--json")
    assert done.code == 0
    assert [(row["role"], row["model"]) for row in done.json["roles"]] == [
        ("planner", "google_genai:gemini-2.5-flash"),
        ("coder", "openai:gpt-5.2"),
        ("coder", "openai:gpt-5-mini"),
    ]
    usd = done.json["total"]["usd"]
    assert 0 < usd["low"] < usd["high"]
    assert usd["low"] == pytest.approx(sum(row["usd"]["low"] for row in done.json["roles"]), abs=1e-3)
    text = ksearch("run", "softmax", *models, "--quote").out
    assert f"Prices are those of {done.json['prices_as_of']}." in text
    assert "US dollars" in text
    assert "assumed  a token is 4 characters" in text


def test_a_server_of_one_s_own_has_an_unknown_price(ksearch: Call) -> None:
    models = ("--planner", "offline", "--coder", "openai:gpt-5.2@http://127.0.0.1:9/v1")
    done = ksearch("run", "softmax", *models, "--quote", "--json")
    assert done.json["unknown_prices"] == ["openai:gpt-5.2@http://127.0.0.1:9/v1"]
    assert [row["role"] for row in done.json["roles"]] == ["coder"]


def test_without_models_there_is_nothing_to_pay(ksearch: Call) -> None:
    done = ksearch("run", "softmax", "--quote")
    assert done.code == 0
    assert "none is asked: nothing to pay" in done.out


def test_a_model_that_does_not_exist_is_found_out(ksearch: Call) -> None:
    done = ksearch("run", "softmax", "--planner", "opena:gpt-5.2", "--coder", "manual", "--quote")
    assert done.code == 2
    assert "did you mean 'openai'" in done.err
