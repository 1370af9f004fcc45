"""What tests of several areas share."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres_server import PostgresServer, programs

# Hypothesis would fail an example that takes long, as any may on a machine that is busy with others.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Where a shell starts the tests in the background, Ctrl-C is ignored, and would be by the commands that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test run's own."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL's server is not installed, nor could it be: apt-get install postgresql")
    server = PostgresServer(found)
    yield server
    server.remove()
