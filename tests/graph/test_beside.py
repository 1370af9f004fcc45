"""Work beside other work: it ends with it, and no failure is lost or told twice."""

import asyncio
import gc
from typing import Any

import pytest

from graph.beside import beside


async def failing() -> None:
    raise OSError("beside")


@pytest.fixture
async def complaints() -> list[dict[str, Any]]:
    """What the event loop has to say by itself, such as of failures that nobody asked for."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
    return said


async def test_it_ends_with_the_block(complaints: list[dict[str, Any]]) -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with beside(endless()):
        await asyncio.sleep(0)
        assert not ended.is_set()
    assert ended.is_set()
    assert complaints == []


async def test_its_failure_is_raised_once_the_block_has_ended(complaints: list[dict[str, Any]]) -> None:
    with pytest.raises(OSError, match="beside"):
        async with beside(failing()):
            await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def failing_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise OSError("beside")


async def both_failing() -> None:
    async with beside(failing_when_cancelled()):
        await asyncio.sleep(0)
        raise ValueError("block")


async def test_where_both_fail_the_block_is_told_of_alone(complaints: list[dict[str, Any]]) -> None:
    task = asyncio.create_task(both_failing())
    await asyncio.wait([task])
    assert isinstance(task.exception(), ValueError)
    del task
    gc.collect()
    assert complaints == []
