"""The configuration of a search: every option, its unit and its default. No secrets: keys come from the environment."""

from typing import Any, Literal

from pydantic import Field

from evaluators.objective import Record
from evaluators.solution import Language

PolicyName = Literal["priority", "puct", "random"]


class SearchConfig(Record):
    """All options of one search. Presets (graph/presets.py) set several at once; every field can be set alone."""

    task: str = "softmax"
    """What to optimise: a built-in name, or a folder with task.toml."""
    language: Language | None = None
    """Language of the programs; None takes the first that the task has a contract for."""
    preset: Literal["default", "paper"] = "paper"
    """Which preset the other fields started from (recorded, not applied again)."""
    planner: str = "offline"
    """Who plans: `offline` (knobs, no model), a chat model such as `openai:NAME`, `google_genai:NAME`,
    `openai:NAME@http://HOST:PORT/v1`, `exec:COMMAND`, `manual` or `cassette:FILE`, or a schedule of models by round:
    `A until 150, B`. For tests and benchmarks: `scripted`, `script:FILE`."""
    coder: str = "offline"
    """Who writes programs; the same choices."""
    evaluator: str = "local"
    """Who judges programs: `local` (this machine), `deferred` (the run pauses with a bundle that another machine judges
    with one command), `untimed:ARCH` (GPU programs where there is no GPU: built and checked), `cassette:FILE` (recorded
    verdicts), or `scripted` (a formula, for tests and benchmarks)."""
    first_tier: str | None = None
    """Who looks at a program first, in the words of `evaluator`, such as `untimed:sm_90a`: what fails there goes no
    further, and costs the evaluator nothing. It counts as an evaluation all the same. None: nobody."""
    devices: str | None = None
    """Devices that `local` judges on, separated by commas: `cpu`, `cpu:3`, `cpu:0-3` (these processors), `cuda`,
    `cuda:1` or a GPU's identity. Those of a kind must be alike. None: this machine's CPU, and its first GPU for tasks
    of a GPU."""
    evaluations_per_device: int = Field(default=1, ge=1, le=8)
    """Evaluations under way on each of the `devices`: one at a time is timed, the others are built and checked."""
    policy: PolicyName = "priority"
    """How the next intent is chosen: highest priority, puct, or at random."""
    puct_exploration: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Exploration constant of `puct`."""
    stagnation: int = Field(default=7, ge=1, le=1000)
    """K: a cycle ends after so many counted samples in a row without improvement."""
    sample_cap: int | None = Field(default=None, ge=1)
    """A cycle ends after so many counted samples, improving or not; None: no cap, as in the paper."""
    width: int = Field(default=1, ge=1, le=64)
    """Cycles that run at the same time, each on an intent of its own."""
    samples: int = Field(default=1, ge=1, le=64)
    """Programs drawn per cycle and round."""
    difficulty_ceiling: int | None = Field(default=None, ge=1, le=5)
    """Intents above this difficulty are not selected; None: no ceiling."""
    novelty: bool = False
    """A program equal to an evaluated one (comments and layout ignored) costs no evaluation."""
    reuse_evaluations: bool = False
    """Take the provisional figure of a program that another run has measured: same task, protocol and environment. It
    counts as an evaluation and costs no device time. Runs that share figures are not independent experiments."""
    repeat_cap: int = Field(default=3, ge=1, le=100)
    """A cycle ends after so many repeats caught by the novelty gate."""
    calibration: bool = False
    """Correct predicted gains by how earlier ones turned out, where a policy uses them."""
    idle_cap: int = Field(default=30, ge=1, le=100_000)
    """The search ends after so many rounds in a row without an evaluation: replies that hold no new program."""
    review: bool = False
    """Pause before each batch of the planner's edits is committed, for a person's approval (`ksearch answer`)."""
    frozen_world_model: bool = False
    """Ablation: no edits after the first."""
    flat: bool = False
    """Ablation: every intent is inserted under the root."""
    use_seed: bool = True
    """Start from the task's seed program; false starts from nothing, as the paper's TriMul run does."""
    max_evaluations: int = Field(default=40, ge=0, le=1_000_000)
    """Budget: evaluations of candidates. The seed and certification are free; their cost is shown."""
    max_tokens: int | None = Field(default=None, ge=0)
    """Budget: input plus output tokens of planner and coder; None: no limit."""
    max_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Budget: US dollars; None: no limit."""
    max_wall_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Budget: seconds of wall-clock time spent running, pauses excluded; None: no limit."""
    target: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Stop when the incumbent's objective reaches this value; None: go on."""
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    """Seed of every random choice the search makes."""
    prompt_variant: str = "default"
    """Prompts that planner and coder models are given (`ksearch prompts` lists them)."""
    hardware: str | None = None
    """Sheet of the hardware that prompts describe; None: `cpu` for tasks of the CPU, `gpu` (no figures) for others."""
    edit_format: Literal["whole", "search_replace"] = "whole"
    """How a coder model replies: with whole files, or with search and replace blocks (whole files after a failure)."""
    repair_turns: int = Field(default=0, ge=0, le=100)
    """Turns per cycle that ask for nothing but mending a program that did not compile, and count neither for K nor for
    the budget; 0: debug prompts instead, which count."""
    max_corrections: int = Field(default=2, ge=0, le=10)
    """Corrective turns after a reply that cannot be used, each with the exact errors."""
    tree_chars: int = Field(default=60_000, ge=0)
    """Size of the tree in a planner's prompt, characters. Whole nodes are left out to keep to it: pruned, then failed,
    then closed ones that lead to no open node and not to the best program; the rest is shown whatever its size."""

    model_timeout_s: float = Field(default=900.0, gt=0, le=86_400)
    """Wall-clock limit of one try of a model call, seconds."""
    model_retries: int = Field(default=4, ge=0, le=100)
    """Further tries after errors that may pass: rate limits, server faults, timeouts, broken connections."""
    requests_per_minute: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Limit for each model by itself, in this process; None: none of our own."""
    reasoning_effort: str | None = None
    """`low`, `medium`, `high`, ... in the provider's words; None: its default."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """None: the provider's default."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Limit of one reply, reasoning included, tokens; None: the provider's default."""
    structured_replies: bool = True
    """Hand the wanted JSON schema to providers that take one; false for servers that refuse it."""

    def with_options(self, options: dict[str, Any]) -> "SearchConfig":
        """Return the configuration with `options` set, validated. Raises pydantic.ValidationError."""
        return SearchConfig.model_validate({**self.model_dump(), **options})
