"""The planner behind a chat model: asks, validates edits against the tree, corrects, and falls back."""

import asyncio

from evaluators.errors import ReplyError
from graph.edits import EditBatch, Insert, apply_batch
from graph.world_model import ROOT, Intent
from nodes.correcting import Asked, Refusal, ask_until_usable
from nodes.models.chat import Chat, ChatReply
from nodes.paid import PaidCalls
from nodes.planner import PlannerView, Proposal
from nodes.planner_reply import validate
from nodes.prompting.planner_prompt import planner_request
from nodes.prompting.specification import FIRST_INTENTS
from nodes.prompting.tree_view import best_node
from nodes.replies.json_reply import find_json
from prompts.library import Variant

FALLBACK_PRIORITY = 0.3
"""Below what a planner gives to an intent that it believes in."""


class LlmPlanner:
    """Implements nodes.planner.Planner. Whatever the model replies, the search goes on with a valid batch."""

    def __init__(self, chat: Chat, variant: Variant) -> None:
        """Ask `chat` with the prompts of `variant`."""
        self.chat = chat
        self.variant = variant

    async def initialize(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Return the first intents. Raises UsageError, ModelFailure: there is no reply at all."""
        return await self._propose(view, calls, first=True)

    async def revise(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Return edits after the cycles in `view.reports`. Raises as `initialize`."""
        return await self._propose(view, calls, first=False)

    async def _propose(self, view: PlannerView, calls: PaidCalls, *, first: bool) -> Proposal:
        request = await asyncio.to_thread(planner_request, self.variant, view, first=first)

        def read(reply: ChatReply, left: int) -> EditBatch | Refusal:
            return self._read(view, reply, FIRST_INTENTS if first and left else int(first))

        def correct(refusal: Refusal, left: int) -> str:
            return self.variant.render("planner_correct.md", errors=refusal.errors, left=left)

        asked = await ask_until_usable(self.chat, calls, request, view.config.max_corrections, read, correct)
        if asked.value is not None:
            return Proposal(asked.value, asked.told)
        return Proposal(_fallback(view, self.variant.render("fallback.md")), _told(asked))

    def _read(self, view: PlannerView, reply: ChatReply, least: int) -> EditBatch | Refusal:
        """Return the batch in a reply if it can be applied and inserts at least `least` intents."""
        try:
            data = find_json(reply.text)
        except ReplyError as error:
            return Refusal((str(error),))
        found = validate(data, self.variant.beyond_paper)
        if isinstance(found, list):
            return Refusal(tuple(found))
        batch = found.batch(_cycles(view))
        problems = _problems(view, batch, least)
        return Refusal(tuple(problems)) if problems else batch


def _cycles(view: PlannerView) -> tuple[int, ...]:
    return tuple(report.cycle.id for report in view.reports)


def _problems(view: PlannerView, batch: EditBatch, least: int) -> list[str]:
    """Return why a well-formed batch must not be applied, empty when it may be."""
    inserts = [edit for edit in batch.edits if isinstance(edit, Insert)]
    problems = []
    if len(inserts) < least:
        problems.append(f"the first reply must insert at least {least} intents; there are {len(inserts)}")
    if view.config.flat:
        problems += [
            f"edit {number} (insert): parent must be {ROOT!r}"
            for number, edit in enumerate(batch.edits, start=1)
            if isinstance(edit, Insert) and edit.parent != ROOT
        ]
    verdict = apply_batch(view.model, batch)
    if verdict.model is None:
        return [*problems, *verdict.reasons]
    if not verdict.model.frontier() and not verdict.model.counts()["active"]:
        problems.append("nothing would be left to try: insert an intent under the root or a closed node, or keep one")
    return problems


def _fallback(view: PlannerView, description: str) -> EditBatch:
    """Return the batch that keeps the tree and adds one generic intent under its best program."""
    parent = ROOT if view.config.flat else best_node(view.model)
    # The id that the node will get makes the title unlike any other.
    title = f"Remove what bounds {'the program' if parent == ROOT else parent} now (n{view.model.next_node})"
    intent = Intent(title=title, description=description, priority=FALLBACK_PRIORITY)
    return EditBatch(
        origin="fallback",
        reason="the planner gave no usable reply",
        cycles=_cycles(view),
        edits=(Insert(parent=parent, intent=intent),),
    )


def _told(asked: Asked[EditBatch]) -> str:
    return f"fallback: {asked.told}"
