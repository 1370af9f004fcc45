"""Reading an experiment's file: cells, seeds, names, and what is refused."""

import tomllib

import pytest

from evaluators.errors import UsageError
from graph.experiments.plan import Plan, jobs, read_plan


def plan(text: str, name: str = "trial") -> Plan:
    return read_plan(tomllib.loads(text), "trial.toml", name)


MATRIX = """
seeds = 2
at_a_time = 3
[options]
task = "scripted"
max_evaluations = 10
[matrix]
policy = ["priority", "puct"]
model = [
    { name = "a", planner = "scripted", coder = "scripted" },
    { planner = "openai:B", coder = "openai:B", stagnation = 3 },
]
[[cells]]
name = "paper"
preset = "paper"
[budget]
evaluations = 100
"""


def test_a_matrix_and_further_cells() -> None:
    made = plan(MATRIX)
    assert [cell.name for cell in made.cells] == [
        "priority-a", "priority-openai-B-openai-B-3", "puct-a", "puct-openai-B-openai-B-3", "paper",
    ]  # fmt: skip
    last = made.cells[3]
    assert last.options == {"policy": "puct", "planner": "openai:B", "coder": "openai:B", "stagnation": 3}
    assert (last.config.policy, last.config.stagnation, last.config.max_evaluations) == ("puct", 3, 10)
    assert (made.cells[4].config.preset, made.cells[4].config.novelty) == ("paper", False)
    assert (made.name, made.seeds, made.at_a_time, made.limits.evaluations) == ("trial", (0, 1), 3, 100)


def test_searches_begin_seed_by_seed_so_that_cells_stay_even() -> None:
    found = jobs(plan('seeds = [7, 3]\n[matrix]\npolicy = ["priority", "puct"]\n'))
    assert [job.run for job in found] == ["trial-priority-s7", "trial-puct-s7", "trial-priority-s3", "trial-puct-s3"]
    assert [(job.config.seed, job.config.policy) for job in found[:2]] == [(7, "priority"), (7, "puct")]


def test_states_of_a_run_are_units_too() -> None:
    text = '[matched]\nrun = "softmax-1"\nat = [0, 5]\nevaluations = 4\n[matrix]\ncoder = ["openai:A", "openai:B"]\n'
    text += 'planner = ["openai:A"]\n'
    found = jobs(plan(text))
    assert [(job.unit, job.at) for job in found] == [("r0-s0", "0"), ("r0-s0", "0"), ("r5-s0", "5"), ("r5-s0", "5")]


def test_without_a_matrix_there_is_one_cell() -> None:
    assert [job.run for job in jobs(plan("seeds = 2", "my plan"))] == ["my-plan-all-s0", "my-plan-all-s1"]


def test_names_that_do_not_fit_are_numbers() -> None:
    made = plan(f'[matrix]\nplanner = ["exec:{"x" * 50}", "exec:a"]\ncoder = ["exec:a"]\n')
    assert [cell.name for cell in made.cells] == ["c1", "exec-a-exec-a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sedes = 2", "key 'sedes' is unknown; did you mean 'seeds'?"),
        ("[budget]\nevaluation = 2", "key 'budget.evaluation' is unknown; did you mean 'evaluations'?"),
        ("[matched]\nruns = 2", "key 'matched.runs' is unknown; did you mean 'run'?"),
        ("[options]\npolice = 'puct'", "option 'police' is unknown; did you mean 'policy'?"),
        ("[matrix]\nwitdh = [1, 2]", "cell 1: option 'witdh' is unknown; did you mean 'width'?"),
        ("[matrix]\npolicy = ['puct', 'pukt']", "cell pukt: option policy: 'pukt' is not allowed"),
        ("[matrix]\npolicy = 'puct'", "matrix.policy: 'puct' is not allowed: it must be a list"),
        ("budget = 3", "budget: 3 is not allowed: it must be a mapping of keys to values"),
        ("[matrix]\npolicy = []", "matrix.policy: is empty"),
        ("[matrix]\nseed = [1, 2]", "an experiment's seeds are set by"),
        ("[options]\nreuse_evaluations = true", "searches that share figures are not independent"),
        ("seeds = 0", "seeds: 0 is not allowed"),
        ("seeds = [1, 1]", "seeds: give each seed once"),
        ("seeds = true", "seeds"),
        ("at_a_time = 0", "at_a_time: 0 is not allowed"),
        ("[matrix]\nwidth = [1, 1]", "cells c1 and c2 are equal"),
        ("[matrix]\npolicy = ['puct']\na = [{ policy = 'random' }]", "option policy is set by two axes"),
        ("name = 'a b'", "name: 'a b' is not allowed"),
        ("[[cells]]\nname = 'a/b'", "name 'a/b': take letters"),
        ("[budget]\nusd = -1.0", "budget.usd: -1.0 is not allowed"),
        ("[matched]\nrun = 'a'\nat = []\nevaluations = 1", "matched.at"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(text)
    assert str(caught.value).startswith("trial.toml: ")
    assert words in str(caught.value)
