"""What a call to a provider's model costs. Prices are data with a date; an unknown model has an unknown price."""

import re
import tomllib
from functools import cache
from pathlib import Path

from pydantic import Field

from evaluators.objective import Record
from nodes.models.chat import Usage

_FILE = Path(__file__).with_name("prices.toml")
_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{2}-\d{2,4}|\d{3})$")
"""A dated or numbered snapshot of a model costs what the model costs."""


class Rates(Record):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Input read from the provider's cache; None: as other input."""
    output: float = Field(ge=0)
    """Reasoning included."""


class Price(Rates):
    """The rates of one model."""

    long_from: int | None = None
    """Calls with more input tokens than this cost the rates of `long`, all of their tokens."""
    long: Rates | None = None


class Prices(Record):
    """The price list."""

    as_of: str
    """ISO date on which the prices held."""
    source: str
    models: dict[str, dict[str, Price]]
    """Provider -> model -> price."""


@cache
def prices() -> Prices:
    """Return the price list that is shipped."""
    return Prices.model_validate(tomllib.loads(_FILE.read_text()))


def find_price(provider: str, model: str) -> Price | None:
    """Return the price of a model, None when it is unknown."""
    name = model.removeprefix("models/")
    known = prices().models.get(provider, {})
    return known.get(name) or known.get(_SNAPSHOT.sub("", name))


def price_usd(provider: str, model: str, usage: Usage) -> float | None:
    """Return the price of one call in US dollars, None when the model's price or its tokens are unknown."""
    price = find_price(provider, model)
    return None if price is None else cost_usd(price, usage)


def cost_usd(price: Price, usage: Usage) -> float | None:
    """Return what one call costs at a price in US dollars, None when its tokens are unknown."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    beyond = price.long is not None and price.long_from is not None and usage.input_tokens > price.long_from
    rates: Rates = price.long if beyond and price.long is not None else price
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    per_cached = rates.input if rates.cached is None else rates.cached
    paid = (usage.input_tokens - cached) * rates.input + cached * per_cached + usage.output_tokens * rates.output
    return round(paid / 1e6, 9)
