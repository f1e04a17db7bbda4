"""The cluster of an embedded server: made once, configured at every start, run by an account that is not root."""

import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from holdfast.postgres.embedded.folder import APPLICATION, DATABASE, OWNER, Plan

# A socket's path must fit into sockaddr_un: 104 bytes on macOS, 108 on Linux, both with the closing zero.
SOCKET_PATH_BYTES = 103

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
    """Why there is no server, for the process that asked for one."""


def initialise(plan: Plan) -> None:
    """Make the cluster beside its place and move it there whole: a kill in the middle leaves nothing half-made.

    From then on its folder belongs to the server. We never write into it, since for root that would mean to follow
    whatever links the server's account has put there.
    """
    home = Path(plan.home)
    new, password_file = home / "postgres.new", home / "password.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    passwords = {name: secrets.token_urlsafe(24) for name in (OWNER, APPLICATION)}
    write_whole(password_file, passwords[OWNER])
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (new, password_file):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    prefix = setpriv(server_user(plan, new))
    builtin = major_version(Path(plan.bindir)) >= 17
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if builtin else ["--locale=C"]
    unsynced = ["--no-sync"] if plan.settings.get("fsync") == "off" else []
    run_tool(
        "initdb",
        [*prefix, plan.binary("initdb"), f"--pgdata={new}", f"--username={OWNER}", f"--pwfile={password_file}",
         "--auth=scram-sha-256", "--encoding=UTF8", *locale, "--data-checksums", "--no-instructions", *unsynced],
    )  # fmt: skip
    password_file.unlink()
    output = run_tool(
        "postgres --single",
        [*prefix, plan.binary("postgres"), "--single", "-D", str(new), "postgres"],
        text=f"create role {APPLICATION} login password '{passwords[APPLICATION]}';\ncreate database {DATABASE};\n",
    )
    if re.search(r"\b(ERROR|FATAL|PANIC):", output):
        raise Failure(f"Postgres output:\n{output}")
    write_whole(home / "pgpass", "".join(f"*:*:*:{name}:{password}\n" for name, password in passwords.items()))
    new.rename(plan.data)


def configure(plan: Plan, port: int) -> list[str]:
    """Write our settings beside the cluster; the options by which the server reads them.

    They come after its own postgresql.conf and before what was set by `alter system`, which beats them.
    """
    fits = len(os.fsencode(plan.data / f".s.PGSQL.{port}")) <= SOCKET_PATH_BYTES
    settings = {
        **SETTINGS,
        "port": str(port),
        "cluster_name": plan.mark,
        "unix_socket_directories": '"{}"'.format(str(plan.data).replace('"', '""')) if fits else "",
        **plan.settings,
    }
    lines = ["include = 'postgres/postgresql.conf'", *(f"{name} = {quote(value)}" for name, value in settings.items())]
    file = Path(plan.home, "holdfast.conf")
    write_whole(file, "\n".join(lines) + "\n", mode=0o644)
    write_whole(Path(plan.home, "port"), f"{port}\n")
    return ["-c", f"config_file={file}"]


def quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


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


def check(plan: Plan) -> None:
    """Refuse a folder that is not a cluster, or that was made by another Postgres."""
    try:
        made_by = (plan.data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        message = f"{plan.data} has no PG_VERSION: it is not a whole cluster. Put it back, or move it away."
        raise Failure(message) from None
    found = str(major_version(Path(plan.bindir)))
    if made_by != found:
        raise Failure(
            f"{plan.data} was made by Postgres {made_by}, the binaries in {plan.bindir} are of {found}. "
            f"Install Postgres {made_by}, or dump the data with it and start in a new folder."
        )


def clear_away(plan: Plan) -> None:
    """Make room for a new server after the old one was killed.

    Its backends leave by themselves when they next wait for something; one that only computes would go on for ever,
    and the new server refuses to start beside it. They can do no harm any more, so they are killed.
    """
    for pid in leftovers(plan):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    pid_file = plan.data / "postmaster.pid"
    with suppress(OSError, ValueError, IndexError):
        pid = int(pid_file.read_text().splitlines()[0])
        os.kill(pid, 0)
        # The number now belongs to a stranger, whom Postgres would take for a running server; its own parent it would
        # not. The other lines stay: by them it makes sure that no backend of the old server is left.
        script = '{ echo "$1"; tail -n +2 "$0"; } > "$0.new" && mv "$0.new" "$0"'
        command = [*setpriv(server_user(plan, plan.data)), "sh", "-c", script, str(pid_file), str(os.getpid())]
        run_tool("mending postmaster.pid", command)


def leftovers(plan: Plan) -> list[int]:
    """The processes of a server of this folder, by the mark in their titles. Only Linux shows them."""
    owner = plan.data.stat().st_uid
    found = []
    title = f"postgres: {plan.mark}: ".encode()
    # Names first, files inside the block: a glob looks for itself, and stumbles over a process that ends meanwhile.
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()] if Path("/proc").exists() else []
    for process in processes:
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(title) and process.stat().st_uid == owner:
                found.append(int(process.name))
    return found


def major_version(bindir: Path) -> int:
    """15 for a folder with the binaries of Postgres 15; 0 if there is no server in it."""
    if not all(os.access(bindir / name, os.X_OK) for name in ("postgres", "initdb")):
        return 0
    output = subprocess.run([bindir / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+", output)
    return int(found.group()) if found else 0


def run_tool(name: str, command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        raise Failure(f"{name} failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    """The caller's environment without what would steer Postgres or translate its messages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def last_output(plan: Plan) -> str:
    """The end of what the server wrote last, wherever it wrote it."""
    logs = [Path(plan.home, "postgres.log"), *(plan.data / "log").glob("*.log")]
    newest = max((log for log in logs if log.exists() and log.stat().st_size), key=lambda log: log.stat().st_mtime)
    return "\n".join(newest.read_text(errors="replace").splitlines()[-8:])


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Put the whole file in its place at once, never through a link that lies there."""
    part = path.with_name(f"{path.name}.new")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    part.rename(path)
