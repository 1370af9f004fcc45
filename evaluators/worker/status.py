"""The one list of what can become of a candidate (standard library only: the worker uses it too)."""

from enum import StrEnum


class Status(StrEnum):
    """What became of a candidate. Everything but `INFRASTRUCTURE` is a fact about the candidate."""

    PASSED = "passed"
    BUILD_ERROR = "build_error"
    IMPORT_ERROR = "import_error"
    RUNTIME_ERROR = "runtime_error"
    LAUNCH_ERROR = "launch_error"
    ILLEGAL_ACCESS = "illegal_access"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_LAYOUT = "wrong_layout"
    WRONG_VALUES = "wrong_values"
    NON_FINITE = "non_finite"
    MUTATED_INPUT = "mutated_input"
    ALIASED_OUTPUT = "aliased_output"
    INTEGRITY = "integrity"
    NOT_TIMED = "not_timed"
    INFRASTRUCTURE = "infrastructure"
