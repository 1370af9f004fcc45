"""What tests of several areas share."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer, programs


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test run's own."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL's server is not installed, nor could it be: apt-get install postgresql")
    server = PostgresServer(found)
    yield server
    server.remove()
