"""`python -m graph.cli` is `ksearch`."""

from graph.cli.app import main

main()
