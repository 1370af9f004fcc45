"""The coder behind a chat model: asks, reads the program, corrects, and gives up on the sample, never on the search."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from evaluators.errors import ReplyError
from evaluators.solution import Language, Solution
from evaluators.task import Contract, contract_solution
from evaluators.worker import flags
from nodes.coder import CodeRequest, Draft
from nodes.correcting import Refusal, ask_until_usable
from nodes.models.chat import Chat, ChatReply
from nodes.paid import PaidCalls
from nodes.prompting.coder_prompt import coder_request
from nodes.replies.edits import edited_program, holds_edits
from nodes.replies.entry_point import defines
from nodes.replies.program import read_program
from prompts.library import Variant

LONGEST_PROGRAM = 1_000_000
"""Characters of a program, all files together."""
_MAIN_SUFFIXES: Mapping[Language, tuple[str, ...]] = {
    "cpp": (".cpp", ".cc", ".cxx", ".c"),
    "cuda": (".cu",),
    "triton": (".py",),
    "python": (".py",),
}


class LlmCoder:
    """Implements nodes.coder.Coder. A reply that cannot be used costs the sample, nothing else."""

    def __init__(self, chat: Chat, variant: Variant) -> None:
        """Ask `chat` with the prompts of `variant`."""
        self.chat = chat
        self.variant = variant

    async def write(self, request: CodeRequest, calls: PaidCalls) -> Draft:
        """Return one program for the request's intent. Raises UsageError, ModelFailure: there is no reply at all."""
        question = await asyncio.to_thread(coder_request, self.variant, request)
        blocks = request.config.edit_format == "search_replace"
        reader = _Reader(request.task.contracts[request.language], request.language, question.base if blocks else None)

        def correct(refusal: Refusal, left: int) -> str:
            return self.variant.render("coder_correct.md", errors=refusal.errors, whole=refusal.whole, left=left)

        asked = await ask_until_usable(
            self.chat, calls, question.request, request.config.max_corrections, reader.read, correct
        )
        return Draft(asked.value, asked.told, repair=question.kind == "repair")


@dataclass
class _Reader:
    """Reads the replies to one question, in order."""

    contract: Contract
    language: Language
    base: Solution | None
    """What search and replace blocks change; None: whole files are wanted."""

    def read(self, reply: ChatReply, left: int) -> Solution | Refusal:
        """Return the program in a reply. Blocks that do not apply are the last ones: from then on files are whole."""
        if self.base is not None and holds_edits(reply.text):
            base, self.base = self.base, None
            try:
                found = self._solution(edited_program(reply.text, base.files, base.main_file))
            except ReplyError as error:
                return Refusal((str(error),), whole=True)
            return replace(found, whole=True) if isinstance(found, Refusal) else found
        if holds_edits(reply.text):
            return Refusal(("search and replace blocks, where whole files are wanted",), whole=True)
        try:
            files = read_program(reply.text, self.contract, self.language, reply.finish)
        except ReplyError as error:
            return Refusal((str(error),))
        return self._solution(files)

    def _solution(self, files: dict[str, str]) -> Solution | Refusal:
        """Return the files as a solution whose main file is the first, unless it is known already that it will fail."""
        main = next(iter(files))
        try:
            contract = self.contract.model_copy(update={"main_file": main})
            solution = contract_solution(contract, self.language, files)
        except ValidationError as error:
            return Refusal(tuple(item["msg"] for item in error.errors()))
        problems = list(self._problems(solution))
        return Refusal(tuple(problems)) if problems else solution

    def _problems(self, solution: Solution) -> list[str]:
        main, size = solution.main_file, sum(map(len, solution.files.values()))
        suffixes = _MAIN_SUFFIXES[self.language]
        refused = flags.refused(solution.flags) if self.language == "cpp" else []
        found = [
            (size > LONGEST_PROGRAM, f"the program has {size} characters; {LONGEST_PROGRAM} are allowed"),
            (not main.endswith(suffixes), f"the main file, {main}, must end in {' or '.join(suffixes)}"),
            (
                not defines(solution.files[main], self.contract.entry_point, self.language),
                f"{main} no longer defines {self.contract.entry_point}",
            ),
            *((True, f"the compiler flag {flag} is not allowed") for flag in refused),
        ]
        return [message for wrong, message in found if wrong]
