"""Exit codes of the program."""

DONE = 0
FAILED = 1
"""The search or the evaluation failed."""
USAGE = 2
"""The caller's input is wrong."""
PAUSED = 3
"""The search can go on: `ksearch resume`."""
INTERRUPTED = 130
"""A signal came before there was anything to go on with: the shell's convention for Ctrl-C."""
