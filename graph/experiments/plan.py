"""The plan of an experiment: which searches it is made of, and what they may cost in all. Pure.

A file such as this one gives four cells of five searches each:

    seeds = 5
    at_a_time = 2

    [options]                       # of every cell
    task = "softmax"
    max_evaluations = 40

    [matrix]                        # every combination is a cell
    policy = ["priority", "puct"]
    model = [                       # options that change together
        { name = "small", planner = "openai:A", coder = "openai:A" },
        { name = "large", planner = "openai:B", coder = "openai:B" },
    ]

    [[cells]]                       # further cells, beside the matrix
    name = "paper"
    preset = "paper"

    [budget]                        # of all searches together
    evaluations = 500
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from evaluators.errors import UsageError
from evaluators.invalid import problem_in
from evaluators.objective import Record
from graph.config import SearchConfig
from graph.presets import explained, nearest, resolve

Options = dict[str, Any]
LONGEST_CELL = 40
"""Characters of a cell's name: with the experiment's and the seed it must fit into a run's name."""
BUDGETS = frozenset({"max_evaluations", "max_tokens", "max_usd", "max_wall_s"})
MAY_CHANGE = BUDGETS | {"devices", "evaluations_per_device", "model_timeout_s", "model_retries", "requests_per_minute"}
"""Options that may differ when an experiment goes on: how far and how fast it goes, not what is compared."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=16)]
CellName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=LONGEST_CELL)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Limits(Record):
    """What all searches of the experiment may spend together; None: no limit."""

    evaluations: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    """Input plus output tokens."""
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    wall_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds during which the experiment ran, pauses excluded."""


class Matched(Record):
    """The same states of another run given to every cell."""

    run: str
    """Name of the run whose states they are."""
    at: tuple[str | int, ...] = Field(min_length=1)
    """Rounds, or checkpoints by their ids: each is a state that every cell begins from."""
    evaluations: int = Field(ge=1)
    """How far each search goes from there."""


class Cell(Record):
    """One way to search; its searches differ in nothing but where their randomness or their state comes from."""

    name: CellName
    options: Options
    """What sets it apart."""
    given: Options
    """What the file sets for it, what it shares with the other cells included."""
    config: SearchConfig
    """All of its options, but for the seed. In matched mode those of the run hold where nothing is given."""


class Plan(Record):
    """An experiment."""

    name: Name
    cells: tuple[Cell, ...]
    seeds: tuple[Seed, ...]
    at_a_time: int
    limits: Limits = Limits()
    matched: Matched | None = None


class Job(Record):
    """One search of an experiment."""

    run: str
    """Its name among the runs."""
    cell: Cell
    seed: int
    unit: str
    """What it has in common with one search of each other cell: the seed, and in matched mode the state."""
    at: str | None = None
    """In matched mode: the state that it begins from."""

    @property
    def config(self) -> SearchConfig:
        """Its options, unless it begins from another run's state: then what the cell gives is set on that run's."""
        return self.cell.config.with_options({"seed": self.seed})


class _File(Record):
    """An experiment's file, keys that are unknown already refused."""

    name: Name | None = None
    seeds: Annotated[int, Field(ge=1, le=10_000)] | list[Seed] = 1
    at_a_time: int = Field(default=1, ge=1, le=256)
    options: Options = {}
    matrix: dict[str, list[Any]] = {}
    cells: list[Options] = []
    budget: Limits = Limits()
    matched: Matched | None = None


def read_plan(data: Mapping[str, Any], source: str, name: str) -> Plan:
    """Return the plan in a file.

    Args:
        data: What the file holds.
        source: Its path, for messages.
        name: The experiment's name unless the file gives one.

    Raises:
        UsageError: a key or an option is unknown (the nearest is named), a value is not allowed, or cells are equal.
    """
    try:
        file = _file(data)
        plan = Plan(
            name=file.name if file.name is not None else _fitting(name),
            cells=tuple(_cells(file)),
            seeds=tuple(range(file.seeds)) if isinstance(file.seeds, int) else tuple(file.seeds),
            at_a_time=file.at_a_time,
            limits=file.budget,
            matched=file.matched,
        )
        _check(plan)
    except ValidationError as error:
        raise UsageError(f"{source}: {explained(problem_in(error), '')}") from error
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error
    return plan


def _file(data: Mapping[str, Any]) -> _File:
    _known(data, _File, "")
    for table, kind in (("budget", Limits), ("matched", Matched)):
        if isinstance(data.get(table), Mapping):
            _known(data[table], kind, f"{table}.")
    # Strict, except that TOML has lists where a record has tuples.
    given = {key: _tuples(value) if key == "matched" else value for key, value in data.items()}
    try:
        return _File.model_validate(given, strict=True)
    except ValidationError as error:
        raise UsageError(explained(problem_in(error, given), "")) from error


def _known(data: Mapping[str, Any], kind: type[Record], where: str) -> None:
    for key in data:
        if key not in kind.model_fields:
            raise UsageError(f"key {where + key!r} is unknown{nearest(key, list(kind.model_fields))}")


def _tuples(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _fitting(stem: str) -> str:
    """Return a file's stem as a name."""
    found = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-.")[:16]
    return found if _NAME.fullmatch(found) else f"e-{found}"[:16].rstrip("-")


def _cells(file: _File) -> Iterator[Cell]:
    settings = [*_combinations(file.matrix), *(_named(f"cells {at}", cell) for at, cell in enumerate(file.cells, 1))]
    names = [name for name, _ in settings] or ["all"]
    for number, (name, options) in enumerate(settings or [("all", {})], start=1):
        fits = name and len(name) <= LONGEST_CELL and names.count(name) == 1
        given = {**file.options, **options}
        if "seed" in given:
            raise UsageError("option seed: an experiment's seeds are set by `seeds = 5` or `seeds = [3, 4]`")
        try:
            config = resolve(None, given)
        except UsageError as error:
            raise UsageError(f"cell {name or number}: {error}" if options else str(error)) from error
        if config.reuse_evaluations:
            raise UsageError("option reuse_evaluations: searches that share figures are not independent: leave it off")
        yield Cell(name=name if fits else f"c{number}", options=options, given=given, config=config)


def _combinations(matrix: Mapping[str, list[Any]]) -> Iterator[tuple[str, Options]]:
    """Yield name and options of every combination of the axes' values."""
    for axis, values in matrix.items():
        if not values:
            raise UsageError(f"matrix.{axis}: is empty: give it values, or leave it out")
    axes = [[_value(axis, value) for value in values] for axis, values in matrix.items()]
    for combination in itertools.product(*axes) if axes else ():
        options: Options = {}
        for _, more in combination:
            if both := options.keys() & more.keys():
                raise UsageError(f"option {min(both)} is set by two axes of the matrix: leave it to one")
            options |= more
        yield "-".join(name for name, _ in combination), options


def _value(axis: str, value: Any) -> tuple[str, Options]:
    """Return name and options of one value of an axis: a table sets several options, anything else the axis's own."""
    return _named(f"matrix.{axis}", value) if isinstance(value, Mapping) else (_slug(value), {axis: value})


def _named(where: str, table: Mapping[str, Any]) -> tuple[str, Options]:
    options = {key: value for key, value in table.items() if key != "name"}
    name = table.get("name")
    if name is None:
        return "-".join(_slug(value) for value in options.values()), options
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise UsageError(f"{where}: name {name!r}: take letters, digits, `-`, `_` and `.`")
    return name, options


def _slug(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")


def _check(plan: Plan) -> None:
    if len(set(plan.seeds)) < len(plan.seeds) or not plan.seeds:
        raise UsageError("seeds: give each seed once, and at least one")
    names: set[str] = set()
    for cell in plan.cells:
        if cell.name in names:
            raise UsageError(f"cell {cell.name}: there are two of this name")
        names.add(cell.name)
    known: dict[str, str] = {}
    for cell in plan.cells:
        same = known.setdefault(cell.config.model_dump_json(exclude={"preset"}), cell.name)
        if same != cell.name:
            raise UsageError(f"cells {same} and {cell.name} are equal: no option tells them apart")
    if plan.matched is not None:
        given = {option for cell in plan.cells for option in cell.given}
        if taken := sorted(given & {"task", "language", "preset", "max_evaluations"}):
            raise UsageError(f"option {taken[0]}: in matched mode the run and [matched] say it: leave it out")


def jobs(plan: Plan) -> tuple[Job, ...]:
    """Return the searches of a plan in the order in which they begin: every cell's first, then every cell's second.

    So a plan that is stopped half-way leaves the cells with equally many searches, which can be compared in pairs.
    """
    states: Iterable[str | None] = (None,) if plan.matched is None else (str(at) for at in plan.matched.at)
    found = []
    for at, seed in itertools.product(states, plan.seeds):
        unit = f"s{seed}" if at is None else f"r{at[:12]}-s{seed}"
        for cell in plan.cells:
            found.append(Job(run=f"{plan.name}-{cell.name}-{unit}", cell=cell, seed=seed, unit=unit, at=at))
    return tuple(found)


def differing(before: SearchConfig, after: SearchConfig) -> Options:
    """Return the options that are not equal, with their later values. The preset is a record of where both began."""
    old = before.model_dump(exclude={"preset"})
    return {key: value for key, value in after.model_dump(exclude={"preset"}).items() if value != old[key]}
