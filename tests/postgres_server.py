"""A PostgreSQL server of the test run's own, from the system's packages: made, started and removed by it."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.ports import keep_port, number

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "32MB",
    # What is committed survives the server's death all the same, only not the machine's.
    "fsync": "off",
}


def programs() -> Path | None:
    """The folder of the server's programs, None when it is not installed."""
    found = shutil.which("initdb")
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *([Path(found).resolve().parent] if found else [])]
    fitting = [folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()]
    return fitting[-1] if fitting else None


class PostgresServer:
    """Listens on a free port of this machine; its user `ksearch` needs no password."""

    def __init__(self, folder: Path) -> None:
        self._programs = folder
        self._place = Path(tempfile.mkdtemp(prefix="ksearch-postgres-"))
        self._data = self._place / "data"
        self._schemas = count(1)
        self._kept = keep_port()
        self.port = number(self._kept)
        self._user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            owner = pwd.getpwnam("postgres")
            os.chown(self._place, owner.pw_uid, owner.pw_gid)
            self._user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        self._call("initdb", "--no-sync", "--auth=trust", "--username=ksearch", "--encoding=UTF8", "--locale=C")
        self.start()
        self._call("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "ksearch", "runs", data=False)

    def home(self) -> str:
        """The address of a fresh home."""
        return f"postgresql://ksearch@127.0.0.1:{self.port}/runs?schema=home{next(self._schemas)}"

    def start(self) -> None:
        given = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._place)}
        options = " ".join(f"-c {name}={value}" for name, value in given.items())
        self._call("pg_ctl", "--wait", "-o", options, "-l", str(self._place / "log"), "start")

    def stop(self, mode: str = "immediate") -> None:
        """Let it go away; `immediate` is as if it had crashed."""
        self._call("pg_ctl", "--wait", "-m", mode, "stop")

    def remove(self) -> None:
        self.stop()
        self._kept.close()
        shutil.rmtree(self._place)

    def _call(self, program: str, *arguments: str, data: bool = True) -> None:
        where: Sequence[str] = ["-D", str(self._data)] if data else []
        done = subprocess.run(
            [*self._user, str(self._programs / program), *where, *arguments],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            # A file and not a pipe, which the server would keep open.
            stdout=(output := tempfile.TemporaryFile()),  # noqa: SIM115
            stderr=subprocess.STDOUT,
        )
        output.seek(0)
        assert done.returncode == 0, output.read().decode()
        output.close()
