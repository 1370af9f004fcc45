"""What an assessor works in."""

from collections.abc import Iterator

import pytest

from evaluators.worker.forge import Forge
from evaluators.worker.session import Workshop
from evaluators.worker.supervisor import confined


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("shop")
    folder.chmod(0o711)
    forge = Forge(folder)
    forge.wait_ready()
    yield Workshop(forge, folder, 1 << 30, *confined(forge, folder))
    forge.close()
