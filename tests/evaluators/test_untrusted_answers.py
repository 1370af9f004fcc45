"""A program may answer in its runner's stead, or end: that is its own failure, never a pass nor the evaluator's."""

import json
import textwrap
from typing import Any

import pytest

from evaluators.jobs import job_data
from evaluators.solution import Solution
from evaluators.worker import rules
from evaluators.worker.assess import Assessor
from evaluators.worker.bench_cpu import CpuBench
from evaluators.worker.job import Job, decode
from evaluators.worker.session import Workshop
from evaluators.worker.status import Status
from tests.evaluators import tiny

HONEST = """
import torch

def run(x, y):
    torch.softmax(x, 1, out=y)
"""
ANSWERS = (
    HONEST
    + """
from evaluators.worker import runner, wire

real = runner._Runner._answer

def answer(self, op, nonce, body, fds):
    if op == wire.{op}:
        self._sock.send(nonce + {data!r})
    else:
        real(self, op, nonce, body, fds)

runner._Runner._answer = answer
"""
)
ENDS = (
    HONEST
    + """
import os
from evaluators.worker import runner

reply = runner._Runner._reply

def last(self, nonce, failure, data):
    reply(self, nonce, failure, data)
    if len(os.sched_getaffinity(0)) == 1:
        os._exit(3)

def calls(self, nonce, body, real=runner._Runner._calls):
    runner._Runner._reply = last
    real(self, nonce, body)

runner._Runner._calls = calls
"""
)
NAMED = HONEST + '\nimport ctypes\nctypes.CDLL(None).prctl(15, b"\\xff\\xfe\\xff")\n'


def end(shop: Workshop, program: str, effort: Any) -> tuple[Status, str | None, str, str]:
    """Return how a program fares, once it is seen that its rival is judged as ever and all can be written down."""
    solutions: list[Solution] = [tiny.python(textwrap.dedent(program)), tiny.GOOD_DPS]
    verdict = Assessor(shop, CpuBench()).run(decode(Job, job_data(tiny.softmax(60), solutions, effort, ())))
    found, rival = verdict.programs
    assert (rival.status, rival.message) == (Status.PASSED, "")
    json.dumps([found.message, found.log]).encode("ascii")
    (found.message + found.log).encode()
    return found.status, found.rule, found.message, found.log


def failed(**told: Any) -> bytes:
    return b"!" + json.dumps({"status": "wrong_values", "rule": None, "message": "", "log": ""} | told).encode()


@pytest.mark.parametrize(
    "data",
    [
        failed(status="passed"),
        failed(status="not_timed"),
        failed(status="infrastructure"),
        failed(status="timeout"),
        failed(status="no status"),
        failed(status={}),
        failed(status="integrity"),
        failed(status="integrity", rule="floor"),
        failed(status="integrity", rule={"a": 1}),
        failed(rule="output_type"),
        b"!" + b"[" * 60_000,
        b"[" * 60_000,
        b"5",
        b"!5",
        b"@12345678",
    ],
    ids=lambda data: data[:60].decode(),
)
def test_what_a_runner_cannot_have_said_is_an_offence(shop: Workshop, data: bytes) -> None:
    status, rule, _, _ = end(shop, ANSWERS.format(op="COLLECT", data=data), "check")
    assert (status, rule) == (Status.INTEGRITY, rules.CHANNEL)


def test_what_it_may_say_is_cut_to_what_can_be_written(shop: Workshop) -> None:
    told = failed(status="runtime_error", message="\ud800" * 3000, log="\udfff")
    assert end(shop, ANSWERS.format(op="COLLECT", data=told), "check") == (Status.RUNTIME_ERROR, None, "?" * 1000, "?")


@pytest.mark.parametrize("patched", [b'{"patched": 5}', b'{"patched": ["\\ud800"]}'])
def test_what_it_says_of_functions_is_not_trusted(shop: Workshop, patched: bytes) -> None:
    status, rule, message, _ = end(shop, ANSWERS.format(op="INSPECT", data=patched), "check")
    expected = (rules.CHANNEL, "answer came") if b"5" in patched else (rules.PATCHED, "replaced ?")
    assert (status, rule) == (Status.INTEGRITY, expected[0])
    assert expected[1] in message


def test_a_program_that_ends_after_its_answer_has_crashed(shop: Workshop) -> None:
    status, _, message, _ = end(shop, ENDS, "search")
    assert (status, message) == (Status.CRASHED, "exited with code 3 before it answered")


def test_a_process_may_have_any_name(shop: Workshop) -> None:
    assert end(shop, NAMED, "search")[0] is Status.PASSED
