"""Records that are kept as blobs, read back; those of another version of ksearch are told in one line."""

from typing import TypeVar

from pydantic import ValidationError

from checkpoints.blobs import BlobStore
from evaluators.errors import UsageError
from evaluators.invalid import first_problem
from evaluators.objective import Record
from graph.config import SearchConfig

R = TypeVar("R", bound=Record)


def read_record(blobs: BlobStore, digest: str, kind: type[R]) -> R:
    """Return the record in a blob.

    Raises:
        StoreError: the blob is missing or damaged.
        UsageError: it holds what this version does not know; the message says what.
    """
    value = blobs.get_json(digest)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise UsageError(
            f"blob {digest[:12]} is no {kind.__name__} of this ksearch ({first_problem(error, value)}): "
            "another version wrote it; go on with that version, or a newer one"
        ) from error


def read_config(blobs: BlobStore, digest: str) -> SearchConfig:
    """Return the configuration in a blob. Errors are those of `read_record`."""
    return read_record(blobs, digest, SearchConfig)
