"""The watchdog: the one process that starts, revives and stops an embedded Postgres server.

Who uses the server holds a shared flock on `holders.lock`. The kernel takes a flock away from a process that dies,
however it dies, so nobody has to be counted. The watchdog waits for the exclusive flock on the same file: when it gets
it, nobody is left, and it stops the server. Whoever comes meanwhile waits for that flock and then starts afresh.

Only the process with the exclusive flock on `watchdog.lock` may start or stop the server, so five processes that start
at once make one server. The holders look after the watchdog in turn (`embedded.py`): if it is killed, one of them
starts another. The server does not outlive its watchdog: on Linux the kernel tells it to stop, so that even a kill of
everybody at once leaves nothing behind. Elsewhere such a server stays, and the next process to come adopts it.

Run as a script, with the standard library alone, so that it starts fast and depends on nothing a user may break.
"""

import fcntl
import json
import os
import pwd
import queue
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

OWNER = "holdfast"
APPLICATION = "holdfast_app"
DATABASE = "holdfast"

# A socket's path must fit into sockaddr_un: 104 bytes on macOS, 108 on Linux, both with the closing zero.
SOCKET_PATH_BYTES = 103

HBA = """\
local all all                scram-sha-256
host  all all 127.0.0.1/32   scram-sha-256
host  all all ::1/128        scram-sha-256
"""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # One file per day of the week, overwritten a week later: the log cannot fill the disk.
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgres-%a.log",
    "log_truncate_on_rotation": "on",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
}


class Failure(Exception):
    """Why there is no server; told to the process that asked for one."""


class Plan(NamedTuple):
    """What a holder asks for: a server in `home`, made of the binaries in `bindir`."""

    home: str
    bindir: str
    settings: dict[str, str]

    @property
    def data(self) -> Path:
        return Path(self.home, "postgres")

    def binary(self, name: str) -> str:
        return str(Path(self.bindir, name))


class Postmaster(NamedTuple):
    """A running server, as its own pid file tells."""

    pid: int
    port: int
    socket: str
    ready: bool


def read_postmaster(home: Path) -> Postmaster | None:
    """The server that runs in `home`; None if there is none, or if the pid file only remembers a dead one."""
    data = home / "postgres"
    try:
        lines = [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if not is_server(pid, data):
        return None
    lines += [""] * (8 - len(lines))
    return Postmaster(pid, int(lines[3] or 0), lines[4], ready=lines[7] in ("ready", "standby"))


def is_server(pid: int, data: Path) -> bool:
    """Whether `pid` lives and is the postmaster of `data`, rather than a stranger who got its old number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        dead = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        return not dead and Path(f"/proc/{pid}/cwd").readlink() == data.resolve()
    except PermissionError:
        # Root in a container may be forbidden to look into the process it gave to another account.
        return os.geteuid() == 0
    except FileNotFoundError:
        return False


def locked(path: Path, kind: int) -> int | None:
    """A file descriptor that holds the flock, or None if somebody else's stands against it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_watched(home: Path) -> bool:
    """Whether a watchdog is alive."""
    descriptor = locked(home / "watchdog.lock", fcntl.LOCK_SH)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def main() -> None:
    """Fork the watchdog off, wait until it reports, pass its report on, and leave it to itself."""
    plan = Plan(*json.loads(sys.argv[1]))
    heard, says = os.pipe()
    if os.fork():
        os.close(says)
        with os.fdopen(heard) as pipe:
            report = pipe.read()
        sys.stderr.write(report)
        sys.stderr.flush()
        os._exit(1 if report else 0)
    os.close(heard)
    detach(Path(plan.home, "watchdog.log"))
    with os.fdopen(says, "w") as caller:
        try:
            watch(plan, ready=caller.close)
        except Failure as failure:
            print(failure, file=sys.stderr if caller.closed else caller)
            sys.exit(1)


def detach(log: Path) -> None:
    """Leave the caller's terminal, folder and signals: only the flocks decide when the watchdog ends."""
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    silence = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for target, source in ((0, silence), (1, output), (2, output)):
        os.dup2(source, target)


def watch(plan: Plan, ready: Callable[[], None]) -> None:
    """Keep the server alive while there are holders; stop it when there are none."""
    home = Path(plan.home)
    if not take_watch(home):  # another watchdog is at work
        ready()
        return
    running = read_postmaster(home)
    server = Server(running.pid, plan.data) if running else launch(plan)
    while not (running := read_postmaster(home)) or not running.ready:
        if server.gone():
            server = launch(plan)
        time.sleep(0.02)
    ready()

    happenings: queue.SimpleQueue[str] = queue.SimpleQueue()

    def report(name: str, wait: Callable[[], None]) -> None:
        def wait_and_tell() -> None:
            wait()
            happenings.put(name)

        threading.Thread(target=wait_and_tell, daemon=True).start()

    report("nobody is left", lambda: wait_until_alone(home))
    report("server died", server.wait)
    while happenings.get() == "server died":
        server = launch(plan, port=running.port)
        report("server died", server.wait)
    server.stop()


def take_watch(home: Path) -> bool:
    """Become the watchdog. The flock is held until the process ends."""
    for _ in range(20):  # holders who ask `is_watched` hold the lock for a moment
        if locked(home / "watchdog.lock", fcntl.LOCK_EX) is not None:
            return True
        time.sleep(0.01)
    return False


def wait_until_alone(home: Path) -> None:
    fcntl.flock(os.open(home / "holders.lock", os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)


class Server:
    """A postmaster: our child, or one left by a watchdog that was killed."""

    def __init__(self, pid: int, data: Path, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.data = data
        self.child = child

    def gone(self) -> bool:
        return self.child.poll() is not None if self.child else not is_server(self.pid, self.data)

    def wait(self) -> None:
        if self.child:
            self.child.wait()
        while not self.gone():
            time.sleep(0.2)

    def stop(self) -> None:
        """Fast shutdown; the harder ways only for a server that does not obey."""
        for number, patience_seconds in ((signal.SIGINT, 60), (signal.SIGQUIT, 10), (signal.SIGKILL, 5)):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            deadline = time.monotonic() + patience_seconds
            while time.monotonic() < deadline:
                if self.gone():
                    return
                time.sleep(0.02)


def launch(plan: Plan, port: int | None = None) -> Server:
    """Start the server and wait until it is ready, however long its crash recovery takes.

    Right after a crash the dead server's children may still be leaving, and somebody may take the port between the
    look and the bind; both pass, so both are tried again for a while. Any other failure is told at once.
    """
    if not Path(plan.home).is_dir():
        raise Failure(f"{plan.home} is gone.")
    if not (plan.data / "PG_VERSION").exists():
        initialise(plan)
    check_version(plan)
    prefix = setpriv([*server_user(plan, plan.data), *bound_to_parent()])
    deadline = time.monotonic() + 30
    while True:
        crashed = (plan.data / "postmaster.pid").exists()
        chosen = port or choose_port(plan)
        configure(plan, chosen)
        with Path(plan.home, "postgres.log").open("wb") as log:
            child = subprocess.Popen(
                [*prefix, plan.binary("postgres"), "-D", str(plan.data)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), start_new_session=True,
            )  # fmt: skip
        while child.poll() is None:
            running = read_postmaster(Path(plan.home))
            if running and running.pid == child.pid and running.ready:
                return Server(child.pid, plan.data, child)
            time.sleep(0.02)
        if time.monotonic() > deadline or not (crashed or not is_free(chosen)):
            raise Failure(f"Postgres said:\n{last_words(plan)}")
        time.sleep(0.2)


def initialise(plan: Plan) -> None:
    """Make the cluster beside its place and move it there whole: a kill in the middle leaves nothing half-made."""
    new = Path(plan.home, "postgres.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(new, nobody.pw_uid, nobody.pw_gid)
    prefix = setpriv(server_user(plan, new))
    builtin = major_version(Path(plan.bindir)) >= 17
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if builtin else ["--locale=C"]
    unsynced = ["--no-sync"] if plan.settings.get("fsync") == "off" else []
    run_tool(
        [*prefix, plan.binary("initdb"), f"--pgdata={new}", f"--username={OWNER}", "--encoding=UTF8", *locale,
         "--auth=trust", "--data-checksums", "--no-instructions", *unsynced]
    )  # fmt: skip
    passwords = {name: secrets.token_urlsafe(24) for name in (OWNER, APPLICATION)}
    statements = [
        f"alter role {OWNER} password '{passwords[OWNER]}'",
        f"create role {APPLICATION} login password '{passwords[APPLICATION]}'",
        f"create database {DATABASE}",
    ]
    said = run_tool(
        [*prefix, plan.binary("postgres"), "--single", "-D", str(new), "postgres"],
        text="".join(f"{statement};\n" for statement in statements),
    )
    if re.search(r"\b(ERROR|FATAL|PANIC):", said):
        raise Failure(f"Postgres said:\n{said}")
    (new / "pg_hba.conf").write_text(HBA)
    with (new / "postgresql.conf").open("a") as file:
        file.write("\ninclude_if_exists = 'holdfast.conf'  # written anew at every start\n")
    write_private(Path(plan.home, "pgpass"), "".join(f"*:*:*:{name}:{word}\n" for name, word in passwords.items()))
    new.rename(plan.data)


def configure(plan: Plan, port: int) -> None:
    """Write our settings. `alter system` still beats them, as a user of Postgres expects."""
    fits = len(os.fsencode(plan.data / f".s.PGSQL.{port}")) <= SOCKET_PATH_BYTES
    settings = {
        **SETTINGS,
        "port": str(port),
        "unix_socket_directories": str(plan.data) if fits else "",
        **plan.settings,
    }
    file = plan.data / "holdfast.conf"
    file.write_text("".join(f"{name} = {quoted(value)}\n" for name, value in settings.items()))
    os.chown(file, plan.data.stat().st_uid, plan.data.stat().st_gid)
    write_private(Path(plan.home, "port"), f"{port}\n")


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def choose_port(plan: Plan) -> int:
    """The port of last time, so that an address once printed stays true; another one if it is taken."""
    with suppress(OSError, ValueError):
        port = int(Path(plan.home, "port").read_text())
        if is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def setpriv(options: list[str]) -> list[str]:
    """What to put before a command so that it runs with these options; nothing for none."""
    return ["setpriv", *options, "--"] if options else []


def bound_to_parent() -> list[str]:
    """The option by which the server stops (fast shutdown) when the watchdog dies, where the kernel knows it."""
    option = ["--pdeathsig=INT"]
    with suppress(OSError):
        if subprocess.run([*setpriv(option), "true"], capture_output=True, check=False).returncode == 0:
            return option
    return []


def server_user(plan: Plan, data: Path) -> list[str]:
    """The options by which a command runs as the account that the data belongs to.

    Postgres refuses to run as root. For root we take the account that owns the data (`nobody` for a new cluster): no
    account is made and no permission changed. Where that account cannot reach the binaries or the data, because a
    folder above them is private to root, it gets one capability, to pass closed folders.
    """
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        raise Failure(
            "Postgres will not run as root, and `setpriv` (package util-linux), which would start it as another "
            "account, is missing. Run as an ordinary user, or set HOLDFAST_URL to a server of your own."
        )
    owner = data.stat()
    if owner.st_uid == 0:
        raise Failure(f"{data} belongs to root, as whom Postgres will not run: give it to another account (chown -R).")
    plain = [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups", "--no-new-privs"]
    closed_folders = [
        [f"--inh-caps=-all,+{capability}", f"--ambient-caps=-all,+{capability}", "--securebits=+no_setuid_fixup"]
        for capability in ("dac_read_search", "dac_override")
    ]
    for more in ([], *closed_folders):
        if can_reach([*plain, *more], plan, data):
            return [*plain, *more]
    raise Failure(
        f"Postgres will not run as root, and the account with number {owner.st_uid} cannot reach {data} or "
        f"{plan.bindir}. Move the project to a folder that others may enter, run as an ordinary user, or set "
        "HOLDFAST_URL to a server of your own."
    )


def can_reach(options: list[str], plan: Plan, data: Path) -> bool:
    script = 'test -x "$0" && test -w "$1"'
    command = [*setpriv(options), "sh", "-c", script, plan.binary("postgres"), str(data)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_version(plan: Plan) -> None:
    made_by, found = (plan.data / "PG_VERSION").read_text().strip(), str(major_version(Path(plan.bindir)))
    if made_by != found:
        raise Failure(
            f"{plan.data} was made by Postgres {made_by}, the binaries in {plan.bindir} are of {found}. "
            f"Install Postgres {made_by}, or dump the data with it and start in a new folder."
        )


def major_version(bindir: Path) -> int:
    """15 for a folder with the binaries of Postgres 15; 0 if there is no server in it."""
    if not all(os.access(bindir / name, os.X_OK) for name in ("postgres", "initdb")):
        return 0
    said = subprocess.run([bindir / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+", said)
    return int(found.group()) if found else 0


def run_tool(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        raise Failure(f"{Path(command[-1]).name} failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    """The caller's environment without what would steer Postgres or translate its words."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def last_words(plan: Plan) -> str:
    """The end of what the server wrote last, wherever it wrote it."""
    logs = [Path(plan.home, "postgres.log"), *(plan.data / "log").glob("*.log")]
    newest = max((log for log in logs if log.exists() and log.stat().st_size), key=lambda log: log.stat().st_mtime)
    return "\n".join(newest.read_text(errors="replace").splitlines()[-8:])


def write_private(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.new")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.rename(path)


if __name__ == "__main__":
    main()
