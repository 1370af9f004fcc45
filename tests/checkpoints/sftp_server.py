"""A real SFTP server for tests: `python sftp_server.py FOLDER PORT KEY` serves a folder to whoever has any key."""

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import paramiko
from paramiko import SFTP_OK, SFTPAttributes, SFTPHandle, SFTPServer


class Access(paramiko.ServerInterface):
    """Lets everyone in."""

    def check_auth_publickey(self, username: str, key: Any) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


class Files(paramiko.SFTPServerInterface):
    """A folder, as OpenSSH serves one."""

    def list_folder(self, path: str) -> Any:
        return _tried(lambda: [_facts(Path(entry)) for entry in os.scandir(_local(path))])

    def stat(self, path: str) -> Any:
        return _tried(lambda: _facts(_local(path)))

    lstat = stat

    def open(self, path: str, flags: int, attr: Any) -> Any:
        def opened() -> SFTPHandle:
            mode = "r+b" if flags & (os.O_WRONLY | os.O_RDWR) else "rb"
            handle = SFTPHandle(flags)
            handle.readfile = handle.writefile = os.fdopen(os.open(_local(path), flags, 0o644), mode)
            return handle

        return _tried(opened)

    def remove(self, path: str) -> int:
        return int(_tried(lambda: _done(_local(path).unlink())))

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return int(_tried(lambda: _done(_local(oldpath).replace(_local(newpath)))))

    def mkdir(self, path: str, attr: Any) -> int:
        return int(_tried(lambda: _done(_local(path).mkdir())))


def _local(path: str) -> Path:
    return Path(sys.argv[1] + os.path.normpath(f"/{path}"))


def _facts(path: Path) -> SFTPAttributes:
    facts = SFTPAttributes.from_stat(path.stat())
    facts.filename = path.name
    return facts


def _done(result: object) -> int:
    return SFTP_OK


def _tried(work: Any) -> Any:
    try:
        return work()
    except OSError as error:
        return SFTPServer.convert_errno(error.errno)


def serve() -> None:
    """Serve until killed."""
    key = paramiko.ECDSAKey.from_private_key_file(sys.argv[3])
    with socket.create_server(("127.0.0.1", int(sys.argv[2]))) as listening:
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_session, args=(client, key), daemon=True).start()


def _session(client: socket.socket, key: Any) -> None:
    transport = paramiko.Transport(client)
    transport.add_server_key(key)
    transport.set_subsystem_handler("sftp", SFTPServer, Files)
    try:
        transport.start_server(server=Access())
    except (EOFError, paramiko.SSHException):  # who only looks whether there is a server
        transport.close()


if __name__ == "__main__":
    serve()
