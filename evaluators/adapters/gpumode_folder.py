"""References `gpumode:FOLDER`: a problem under our own protocol; `FOLDER#official`: under the format's."""

from pathlib import Path

from evaluators.adapters.gpumode.official import official_task
from evaluators.adapters.gpumode.problem_folder import read_folder
from evaluators.adapters.gpumode.strict import strict_task
from evaluators.errors import TaskError
from evaluators.task import Task
from evaluators.worker import gpus


def load_task(rest: str) -> Task:
    """Return the task of a problem folder, on the GPU where there is one; `#cpu`, `#cuda` say where.

    `#official` has the folder's own eval.py judge and time programs, as the format's runner does. Raises TaskError that
    names the file and the field.
    """
    place, *marks = rest.split("#")
    unknown = [mark for mark in marks if mark not in ("official", "cpu", "cuda")]
    if unknown:
        raise TaskError(f"gpumode:{rest}: #{unknown[0]} must be #official, #cpu or #cuda")
    folder = read_folder(Path(place))
    device = next((mark for mark in marks if mark != "official"), "cuda" if gpus.present() else "cpu")
    return official_task(folder, device) if "official" in marks else strict_task(folder, device)
