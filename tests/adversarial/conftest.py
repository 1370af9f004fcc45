"""The evaluator that cheats are tried on."""

from collections.abc import AsyncIterator

import pytest_asyncio

from evaluators.local import LocalEvaluator
from evaluators.worker import rules


@pytest_asyncio.fixture(scope="module")
async def evaluator() -> AsyncIterator[LocalEvaluator]:
    local = LocalEvaluator()
    yield local
    await local.close()


@pytest_asyncio.fixture(scope="module")
async def lenient() -> AsyncIterator[LocalEvaluator]:
    """An evaluator with every integrity rule switched off."""
    local = LocalEvaluator(rules_off=rules.ALL)
    yield local
    await local.close()
