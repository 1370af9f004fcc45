"""Planner and coder that follow a script: for tests, benchmarks and demonstrations; shipped, so that nothing is mocked.

They pay for every reply through the ledger, as a model's is paid for, with made-up token counts and a price of 0. What
they answer depends on the cycle and the sample only, so a resumed or branched search goes on as it would have.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from evaluators.digest import canonical_json, digest_json
from evaluators.errors import UsageError
from evaluators.invalid import first_problem
from evaluators.knobs import turn_solution
from evaluators.objective import Record
from evaluators.solution import SUFFIX, Language, Solution
from evaluators.task import contract_solution
from evaluators.worker.status import Status
from graph.edits import Edit, EditBatch
from graph.world_model import WorldModel
from nodes.coder import CodeRequest, Draft
from nodes.paid import PaidCalls
from nodes.planner import PlannerView, Proposal

COMMENT: Mapping[Language, str] = {"cpp": "//", "cuda": "//", "python": "#", "triton": "#"}
_BODY: Mapping[str, str] = {
    "//": 'static const char sample[] = "{sample}";\nextern "C" void {entry}() {{}}\n',
    "#": 'SAMPLE = "{sample}"\n\n\ndef {entry}(*arguments):\n    pass\n',
}


class ScriptedProposal(Record):
    """What the planner proposes at one place."""

    edits: tuple[Edit, ...] = ()
    reason: str = ""
    summary: str | None = None
    note: str = ""


class ScriptedDraft(Record):
    """One sample: in JSON also a number (its objective), a word (its status), or null (no program came of it)."""

    objective: float | None = Field(default=None, gt=0)
    """The program's figure, as its marker for the scripted evaluator says."""
    status: Status | None = None
    """How the program fails."""
    settings: dict[str, str] = {}
    """Without objective and status: the parent's program with these knobs turned."""
    markers: dict[str, str] = {}
    """Further markers for the scripted evaluator, such as `held_out`."""
    repeats: int | None = Field(default=None, ge=1)
    """The same program as this earlier sample of the cycle."""
    message: str = ""
    final: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if data is None:
            return {"message": "the reply holds no program"}
        if isinstance(data, int | float) and not isinstance(data, bool):
            return {"objective": data}
        return {"status": data} if isinstance(data, str) else data


class Script(Record):
    """A whole search, as planner and coder will play it."""

    proposals: tuple[ScriptedProposal, ...] = ()
    """The first is for initialize, number c (from 0) for the revision after cycle c."""
    cycles: tuple[tuple[ScriptedDraft, ...], ...] = ()
    """Cycle 1's samples in order, then cycle 2's, ..."""
    delay_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """How long each reply takes, seconds, for those who want to watch or to interrupt the search."""

    @staticmethod
    def load(path: Path) -> "Script":
        """Return the script in a JSON file. Raises UsageError, naming the file, when it cannot be used."""
        try:
            given = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path}: not a script: {error}") from error
        try:
            return Script.model_validate(given)
        except ValidationError as error:
            raise UsageError(f"{path}: not a script: {first_problem(error, given)}") from error

    def draft(self, cycle: int, sample: int) -> ScriptedDraft | None:
        """Return what is scripted for a sample (both from 1), None when nothing is."""
        drafts = self.cycles[cycle - 1] if cycle <= len(self.cycles) else ()
        return drafts[sample - 1] if sample <= len(drafts) else None


class ScriptedPlanner:
    """Proposes what the script says; nothing where the script has ended."""

    def __init__(self, script: Script, delay_s: float | None = None) -> None:
        """Play `script`; `delay_s` is how long each reply takes, left out: what the script says."""
        self.script = script
        self.delay_s = script.delay_s if delay_s is None else delay_s

    async def initialize(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Return the script's first proposal."""
        return await self._proposal(view, calls, "initialize", (0,))

    async def revise(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Return the proposals for the cycles that have ended, joined in their order."""
        return await self._proposal(view, calls, "revise", tuple(report.cycle.id for report in view.reports))

    async def _proposal(self, view: PlannerView, calls: PaidCalls, method: str, places: tuple[int, ...]) -> Proposal:
        scripted = [self.script.proposals[place] for place in places if place < len(self.script.proposals)]
        batch = EditBatch(
            origin="planner",
            reason="; ".join(item.reason for item in scripted if item.reason),
            cycles=tuple(place for place in places if place),
            summary=next((item.summary for item in reversed(scripted) if item.summary is not None), None),
            edits=tuple(edit for item in scripted for edit in item.edits),
        )
        note = "; ".join(item.note for item in scripted if item.note) if scripted else "the script has ended"
        return await paid_proposal(view, calls, method, Proposal(batch, note), self.delay_s)


class ScriptedCoder:
    """Writes what the script says; nothing, and for good, where the script has ended."""

    def __init__(self, script: Script, delay_s: float | None = None) -> None:
        """Play `script`; `delay_s` is how long each reply takes, left out: what the script says."""
        self.script = script
        self.delay_s = script.delay_s if delay_s is None else delay_s

    async def write(self, request: CodeRequest, calls: PaidCalls) -> Draft:
        """Return the draft that the script has for the request's cycle and sample."""
        return await paid_draft(request, calls, self._draft(request), self.delay_s)

    def _draft(self, request: CodeRequest) -> Draft:
        cycle, sample = request.cycle.id, request.sample
        scripted = self.script.draft(cycle, sample)
        if scripted is None:
            return Draft(None, f"the script has no sample {sample} of cycle {cycle}", final=True)
        if scripted.repeats is not None:
            sample = scripted.repeats
            original = self.script.draft(cycle, sample)
            if original is None or original.repeats is not None:
                return Draft(None, f"the script's sample {sample} of cycle {cycle} cannot be repeated", final=True)
            solution = _scripted_program(request, original, sample)
        else:
            solution = _scripted_program(request, scripted, sample)
        message = scripted.message or ("" if solution else "the script holds no program here")
        return Draft(solution, message, scripted.final)


def _scripted_program(request: CodeRequest, scripted: ScriptedDraft, sample: int) -> Solution | None:
    markers = dict(scripted.markers)
    if scripted.objective is not None:
        markers["objective"] = repr(scripted.objective)
    if scripted.status is not None:
        markers["status"] = scripted.status.value
    if markers:
        return program(request, markers, sample)
    if scripted.settings and request.parent is not None:
        return turn_solution(request.parent, scripted.settings)
    return None


def program(request: CodeRequest, markers: Mapping[str, str], sample: int) -> Solution:
    """Return a small program with markers for the scripted evaluator.

    Its one line of code differs between any two samples of a search, so that the novelty gate tells them apart.
    """
    contract, mark = request.task.contracts[request.language], COMMENT[request.language]
    lines = [f"{mark} scripted: {key} = {value}\n" for key, value in markers.items()]
    body = _BODY[mark].format(sample=f"cycle {request.cycle.id}, sample {sample}", entry=contract.entry_point)
    name = f"{contract.entry_point}{SUFFIX[request.language]}"
    return contract_solution(contract, request.language, {name: "".join(lines) + body})


async def paid_proposal(
    view: PlannerView, calls: PaidCalls, method: str, proposal: Proposal, delay_s: float
) -> Proposal:
    """Return `proposal` as the ledger has it: paid for now, or read back from when it was paid for."""
    request = {
        "planner": "scripted",
        "method": method,
        "round": view.round,
        "cycles": [report.cycle.id for report in view.reports],
        "tree": _gist(view.model),
        "seed": view.config.seed,
    }
    reply = {"batch": proposal.batch.model_dump(mode="json"), "note": proposal.note}
    known = await _paid(calls, "planner", request, reply, delay_s)
    return Proposal(EditBatch.model_validate(known["batch"]), known["note"])


def _gist(model: WorldModel) -> str:
    """Return a digest of what a planner would look at first; of the whole tree it would cost more than the rest."""
    nodes = [[node.id, node.intent.priority, len(node.evidence)] for node in model.frontier()]
    return digest_json([model.revision, model.summary, nodes])


async def paid_draft(request: CodeRequest, calls: PaidCalls, draft: Draft, delay_s: float) -> Draft:
    """Return `draft` as the ledger has it: paid for now, or read back from when it was paid for."""
    best, last = (None if known is None else known.solution for known in (request.best, request.last))
    programs = {"parent": request.parent, "best": best, "last": last}
    asked = {
        "coder": "scripted",
        "node": request.node.id,
        "title": request.node.intent.title,
        "cycle": request.cycle.id,
        "sample": request.sample,
        "seed": request.config.seed,
        **{name: None if item is None else item.digest for name, item in programs.items()},
    }
    solution = None if draft.solution is None else draft.solution.model_dump(mode="json")
    reply = {"solution": solution, "message": draft.message, "final": draft.final}
    known = await _paid(calls, "coder", asked, reply, delay_s)
    program = None if known["solution"] is None else Solution.model_validate(known["solution"])
    return Draft(program, known["message"], known["final"])


async def _paid(calls: PaidCalls, role: str, request: dict[str, Any], reply: dict[str, Any], delay_s: float) -> Any:
    async def call() -> tuple[dict[str, Any], dict[str, Any]]:
        await asyncio.sleep(delay_s)
        return reply, _spend(request, reply)

    return await calls.once(role, request, call)


def _spend(request: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    """Made up, as the whole reply is: a token for every four bytes."""
    return {
        "model": "scripted",
        "input_tokens": len(canonical_json(request)) // 4,
        "output_tokens": len(canonical_json(reply)) // 4,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "usd": 0.0,
    }
