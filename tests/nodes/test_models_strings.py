"""Models from strings: schedules, providers, addresses; prices."""

import pytest

from evaluators.errors import UsageError
from nodes.models.chat import Usage
from nodes.models.clients import is_strict
from nodes.models.command import ExecChat
from nodes.models.factory import Chats, ScheduledChat, kinds
from nodes.models.manual import ManualChat
from nodes.models.options import ModelOptions
from nodes.models.provider import ProviderChat
from nodes.models.schedule import Stage, model_at, parse_schedule
from nodes.models.target import Target
from nodes.pricing import find_price, price_usd, prices

SCHEDULE = "openai:gpt-5.2 until 150, google_genai:gemini-3-pro-preview"


@pytest.mark.parametrize(
    ("spec", "stages"),
    [
        ("openai:gpt-5.2", (Stage("openai:gpt-5.2", None),)),
        (SCHEDULE, (Stage("openai:gpt-5.2", 150), Stage("google_genai:gemini-3-pro-preview", None))),
        ("a:b until 1,c:d   until 20 ,  e:f", (Stage("a:b", 1), Stage("c:d", 20), Stage("e:f", None))),
        ("exec:agent -p 'wait, until done'", (Stage("exec:agent -p 'wait, until done'", None),)),
        ("openai:q@http://h:80/v1 until 3, manual", (Stage("openai:q@http://h:80/v1", 3), Stage("manual", None))),
    ],
)
def test_schedules(spec: str, stages: tuple[Stage, ...]) -> None:
    assert parse_schedule(spec) == stages


def test_the_round_decides() -> None:
    found = [model_at(parse_schedule(SCHEDULE), round).partition(":")[0] for round in (0, 1, 150, 151, 10_000)]
    assert found == ["openai", "openai", "openai", "google_genai", "google_genai"]
    assert kinds(f"{SCHEDULE} until 200, manual") == ("openai", "google_genai", "manual")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "a model is missing"),
        (" until 3, a:b", "a model is missing"),
        ("a:b until 3, ", "a model is missing"),
        ("a:b until 3", "the last one goes on to the end"),
        ("a:b until 5, c:d until 5, e:f", "rounds after `until` must rise"),
        ("a:b until 5, c:d until 3, e:f", "rounds after `until` must rise"),
    ],
)
def test_schedules_that_are_none(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_schedule(spec)


def test_what_each_string_makes() -> None:
    openai = Chats().get("openai:gpt-5.2")
    assert isinstance(openai, ProviderChat)
    assert openai.target == Target("openai", "gpt-5.2")
    local = Chats().get("openai:meta/llama@3@http://127.0.0.1:8000/v1")
    assert isinstance(local, ProviderChat)
    assert local.target == Target("openai", "meta/llama@3", "http://127.0.0.1:8000/v1")
    assert isinstance(Chats().get("manual"), ManualChat)
    command = Chats().get("exec:agent --print 'two words'")
    assert isinstance(command, ExecChat)
    assert command.arguments == ["agent", "--print", "two words"]
    schedule = Chats().get(SCHEDULE)
    assert isinstance(schedule, ScheduledChat)
    assert schedule.at(150) is not schedule.at(151)


def test_models_are_shared_by_string_and_options() -> None:
    chats = Chats()
    assert chats.get("openai:gpt-5.2") is chats.get("openai:gpt-5.2")
    assert chats.get("openai:gpt-5.2") is not chats.get("openai:gpt-5.2", ModelOptions(timeout_s=1))
    schedule = chats.get("openai:gpt-5.2 until 3, manual")
    assert isinstance(schedule, ScheduledChat)
    assert schedule.at(0) is chats.get("openai:gpt-5.2")


def test_limits_of_requests_are_shared_by_all_who_ask_a_model() -> None:
    chats = Chats()
    specs = (("openai:a", 0.0), ("openai:a", 1.0), ("openai:b", 0.0))
    asked = [chats.get(spec, ModelOptions(requests_per_minute=6, temperature=warm)) for spec, warm in specs]
    limiters = [chat.limiter for chat in asked if isinstance(chat, ProviderChat)]
    assert len(limiters) == 3
    assert limiters[0] is limiters[1] is not None
    assert limiters[2] not in (None, limiters[0])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("gpt-5.2", "is incomplete: write PROVIDER:NAME"),
        ("openai:", "is incomplete"),
        ("opnai:gpt-5.2", "there is no provider 'opnai'; did you mean 'openai'"),
        ("exec: ", "is incomplete"),
        ("exec:agent 'never closed", "No closing quotation"),
        ("manual:me", "there is no provider 'manual'"),
        ("cassette:", "is incomplete"),
        ("openai:q@http://me:secret@host/v1", "must not hold credentials: put the key into KSEARCH_SERVER_API_KEY"),
        ("openai:q@http://secret@host/v1", "must not hold credentials"),
        ("openai:q@http:///v1", "must be http://HOST"),
        ("openai:q@http://host:port/v1", "a model's address is wrong"),
        ("openai:q@http://host/v1?key=secret", "must be http://HOST"),
        ("openai:gpt-5.2 until 3, opnai:x", "there is no provider"),
    ],
)
def test_strings_that_make_nothing(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        Chats().get(spec)
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "model", "known"),
    [
        ("openai", "gpt-5.2", "gpt-5.2"),
        ("openai", "gpt-5.2-2025-12-11", "gpt-5.2"),
        ("openai", "gpt-5.2-pro-2025-12-11", "gpt-5.2-pro"),
        ("openai", "gpt-5.2-chat-latest", None),
        ("openai", "gemini-3-pro-preview", None),
        ("google_genai", "models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("google_genai", "gemini-2.5-pro-preview-05-06", None),
        ("google_genai", "gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("anthropic", "claude", None),
    ],
)
def test_which_price_holds(provider: str, model: str, known: str | None) -> None:
    assert find_price(provider, model) == (None if known is None else prices().models[provider][known])


def test_prices_by_kind_of_token() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000, reasoning_tokens=90_000)
    assert price_usd("openai", "gpt-5.2", usage) == pytest.approx(0.6 * 1.75 + 0.4 * 0.175 + 0.1 * 14)
    assert price_usd("openai", "gpt-5.2-pro", usage) == pytest.approx(21 + 16.8)
    assert price_usd("openai", "gpt-9", usage) is None
    assert price_usd("openai", "gpt-5.2", Usage(input_tokens=5)) is None
    assert price_usd("openai", "gpt-5.2", Usage(input_tokens=0, output_tokens=0)) == 0


def test_long_prompts_cost_more() -> None:
    short = Usage(input_tokens=200_000, output_tokens=0, cached_tokens=0)
    long = Usage(input_tokens=200_001, output_tokens=0, cached_tokens=0)
    assert price_usd("google_genai", "gemini-3-pro-preview", short) == pytest.approx(0.4)
    assert price_usd("google_genai", "gemini-3-pro-preview", long) == pytest.approx(0.800004)


def test_schemas_that_a_model_can_be_held_to() -> None:
    closed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert is_strict(closed)
    assert is_strict({**closed, "properties": {"a": {"anyOf": [closed, {"type": "null"}]}}})
    assert not is_strict({**closed, "required": []})
    assert not is_strict({**closed, "additionalProperties": True})
    assert not is_strict({**closed, "properties": {"a": {"type": "array", "items": {"type": "object"}}}})
