"""The stable part of every prompt: what the task is, how programs are called, on which hardware. No measurements."""

import ast
from collections.abc import Mapping
from typing import Any

from evaluators.solution import SUFFIX, Language
from evaluators.task import Contract, Task
from evaluators.task_source import DECLARATIONS
from evaluators.worker.flags import DEFAULT
from graph.config import SearchConfig
from nodes.prompting.signature import signature
from prompts.library import Variant
from prompts.sheets import load_sheet

LANGUAGE_NAMES: Mapping[Language, str] = {"cpp": "C++", "cuda": "CUDA C++", "triton": "Triton", "python": "Python"}
FENCES: Mapping[Language, str] = {"cpp": "cpp", "cuda": "cuda", "triton": "python", "python": "python"}
"""What stands behind the fence of a code block."""
FIRST_INTENTS = 3
"""How many intents the planner's first reply inserts at least, as in the paper."""
_NOT_SHOWN = ("inputs", "baseline", "floor")


def system_prompt(variant: Variant, template: str, task: Task, language: Language, config: SearchConfig) -> str:
    """Return a role's stable prefix: byte-identical in every prompt of a run as long as the options stay.

    Raises UsageError for a hardware sheet or a template that does not exist.
    """
    return variant.render(template, **specification(variant, task, language, config))


def specification(variant: Variant, task: Task, language: Language, config: SearchConfig) -> dict[str, Any]:
    """Return what templates of the stable prefix name."""
    contract = task.contracts[language]
    return {
        "task": task,
        "better": better(task),
        "language": language,
        "language_name": LANGUAGE_NAMES[language],
        "fence": FENCES[language],
        "contract": contract,
        "main_file": main_file(contract, language),
        "flags": contract.flags or DEFAULT,
        "signature": signature(task, language, contract),
        "reference": task.reference if task.brings_judge else shown_reference(task.reference),
        "sheet": load_sheet(config.hardware or ("cpu" if task.device == "cpu" else "gpu")),
        "config": config,
        "seeded": config.use_seed and contract.seed is not None,
        "first_intents": FIRST_INTENTS,
    }


def better(task: Task) -> str:
    """Return the word for a program that gains: one's own evaluator may count anything."""
    return "better" if task.verdict == "user" else "faster"


def main_file(contract: Contract, language: Language) -> str:
    """Return the name that the file with the entry point should have."""
    return contract.main_file or f"{contract.entry_point}{SUFFIX[language]}"


def shown_reference(source: str) -> str:
    """Return the reference's source without the functions that make inputs, time the baseline or give the floor.

    Nor with declarations such as a file's held-out workloads. How secret inputs are drawn is not the coder's business.
    Source that is not Python is returned as it is.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return source
    lines = source.split("\n")
    for item in reversed(tree.body):
        if isinstance(item, ast.FunctionDef) and item.name in _NOT_SHOWN:
            first = min([item.lineno, *(decorator.lineno for decorator in item.decorator_list)])
            del lines[first - 1 : item.end_lineno]
        elif _declares(item):
            del lines[item.lineno - 1 : item.end_lineno]
    text = "\n".join(lines).strip()
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    return text


def _declares(item: ast.stmt) -> bool:
    targets = item.targets if isinstance(item, ast.Assign) else [item.target] if isinstance(item, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id in DECLARATIONS for target in targets)
