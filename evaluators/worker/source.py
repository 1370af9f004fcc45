"""A task's reference module from its text, which no file holds."""

import hashlib
import linecache
import types


def load_source(text: str) -> types.ModuleType:
    """Return the module `reference` that `text` makes. What its top level raises passes through.

    The text can be looked up line by line afterwards: tracebacks and Triton's compiler do.
    """
    name = f"/{hashlib.sha256(text.encode()).hexdigest()[:16]}/reference.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = types.ModuleType("reference")
    exec(compile(text, name, "exec"), vars(module))
    return module
