"""Ports for the servers that tests start."""

import socket


def keep_port() -> socket.socket:
    """Return a socket that keeps a free port of this machine for a server, for as long as it is open.

    Nobody else is given the port, neither before the server listens nor while it is away. The socket does not listen,
    so that whoever connects is refused until the server does.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


def number(kept: socket.socket) -> int:
    """The port's number."""
    return int(kept.getsockname()[1])
