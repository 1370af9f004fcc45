from typing import Any

import pytest

from evaluators.errors import UsageError
from graph.config import SearchConfig
from graph.presets import PRESETS, resolve


def test_paper_is_the_published_algorithm_with_every_option_off() -> None:
    config = resolve("paper", {})
    assert (config.policy, config.stagnation, config.width, config.samples) == ("priority", 7, 1, 1)
    assert (config.sample_cap, config.difficulty_ceiling) == (None, None)
    assert [config.novelty, config.calibration, config.frozen_world_model, config.flat] == [False] * 4
    assert config.repair_turns == 0
    assert config == SearchConfig(prompt_variant="paper")


def test_presets_set_the_same_known_options() -> None:
    assert set(PRESETS["paper"]) == set(PRESETS["default"]) <= set(SearchConfig.model_fields)


def test_the_default_preset_is_used_unless_another_is_named() -> None:
    assert resolve(None, {}) == resolve("default", {})
    assert resolve(None, {"preset": "paper"}) == resolve("paper", {})
    assert resolve("paper", {"preset": "default"}).preset == "paper"
    assert resolve(None, {}).novelty


def test_options_go_on_top_of_the_preset() -> None:
    config = resolve("default", {"sample_cap": 3, "width": 2, "max_usd": 5})
    assert (config.sample_cap, config.width, config.max_usd, config.novelty) == (3, 2, 5.0, True)


def test_none_is_said_in_words_where_an_option_may_be_none() -> None:
    assert resolve("default", {"sample_cap": "none", "language": "none"}).sample_cap is None
    assert resolve("default", {"task": "none"}).task == "none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stagnatoin": 3}, "option 'stagnatoin' is unknown; did you mean 'stagnation'?"),
        ({"sample-cap": 3}, "option 'sample-cap' is unknown; did you mean 'sample_cap'?"),
        ({"stagnation": "3"}, "option stagnation: '3' is not allowed: it must be a whole number"),
        ({"stagnation": 0}, "option stagnation: 0 is not allowed: it must be greater than or equal to 1"),
        ({"stagnation": "none"}, "option stagnation: 'none' is not allowed: it must be a whole number"),
        ({"novelty": 1}, "option novelty: 1 is not allowed: it must be true or false"),
        ({"policy": "ucb"}, "option policy: 'ucb' is not allowed: it must be 'priority', 'puct' or 'random'"),
        ({"max_usd": float("inf")}, "option max_usd: inf is not allowed: it must be a finite number"),
        ({"preset": "best"}, "preset: 'best' is unknown; choose one of default, paper"),
        ({"preset": []}, "preset: [] is unknown; choose one of default, paper"),
    ],
)
def test_mistakes_are_named_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(None, options)
    assert str(caught.value) == message


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(None, {"width": "x\n" * 1000})
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_every_option_is_documented() -> None:
    for name, field in SearchConfig.model_fields.items():
        assert field.description, name


def test_options_can_be_changed_later() -> None:
    assert SearchConfig().with_options({"width": 3}).width == 3
