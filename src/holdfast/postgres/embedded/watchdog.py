"""The watchdog: the one process that starts, revives and stops an embedded Postgres server.

Who uses the server holds a shared flock on `holders.lock`. The kernel takes a flock away from a process that dies,
however it dies, so nobody has to be counted. The watchdog tries for the exclusive flock on the same file: when it gets
it, no holder is left, and it stops the server. Another that comes meanwhile waits for that flock, then starts it again.

Only the process with the exclusive flock on `watchdog.lock` may start or stop the server, so five processes that start
at once make one server. The holders look after the watchdog in turn (`holder.py`): if it is killed, one of them
starts another. The server does not outlive its watchdog: on Linux the kernel tells it to stop, so that even a kill of
everybody at once leaves nothing behind. Elsewhere such a server stays, and the next process to come adopts it.

It runs with the standard library alone, so that it starts fast and depends on nothing a user may break. This holds for
all of `postgres/embedded`, and for `holdfast/__init__.py`, which it passes through.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from holdfast.postgres.embedded.cluster import (
    Failure,
    bound_to_parent,
    check,
    choose_port,
    clear_away,
    configure,
    environment,
    initialise,
    is_free,
    last_output,
    server_user,
    setpriv,
)
from holdfast.postgres.embedded.folder import Plan, is_server, read_postmaster, take_lock, try_lock

look_every_seconds = 0.1


def main() -> None:
    """Fork the watchdog off. It closes the stdout of its caller once the server is ready, or writes why it will not be.

    A watchdog that is killed meanwhile has written nothing.
    """
    plan = Plan(*json.loads(sys.argv[2]))
    if os.fork():
        os._exit(0)
    try:
        detach(Path(plan.home, "watchdog.log"))
        watch(plan)
    except Exception as error:
        traceback.print_exc()
        sys.stdout.write(str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}")
        sys.exit(1)


def detach(log: Path) -> None:
    """Leave the caller's terminal, folder and signals: only the flocks decide when the watchdog ends."""
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(null, 0)
    os.dup2(output, 2)


def watch(plan: Plan) -> None:
    """Keep the server alive while there are holders; stop it when there are none."""
    home = Path(plan.home)
    for _ in range(20):  # holders who ask `is_watched` hold the lock for a moment
        if try_lock(home / "watchdog.lock", fcntl.LOCK_EX) is not None:  # held until the process ends
            break
        time.sleep(0.01)
    else:
        return  # another watchdog is at work
    while not (running := read_postmaster(home)) or not running.ready:  # one that was left may still recover
        if not running:
            launch(plan)
        time.sleep(0.02)
    os.dup2(2, 1)  # let go of the caller, who reads stdout to its end
    pid = running.pid
    holders = os.open(home / "holders.lock", os.O_RDWR | os.O_CREAT, 0o600)
    while not take_lock(holders, fcntl.LOCK_EX):
        if is_gone(pid, plan):
            pid = launch(plan, port=running.port)
        time.sleep(look_every_seconds)
    stop(pid, plan)
    clear_away(plan)


def is_gone(pid: int, plan: Plan) -> bool:
    """Whether the server has ended: our child, or one left by a watchdog that was killed."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return not is_server(pid, plan.data)


def stop(pid: int, plan: Plan) -> None:
    """Fast shutdown; the harder ways only for a server that does not obey."""
    for number, patience_seconds in ((signal.SIGINT, 60), (signal.SIGQUIT, 10), (signal.SIGKILL, 5)):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline:
            if is_gone(pid, plan):
                return
            time.sleep(0.02)


def launch(plan: Plan, port: int | None = None) -> int:
    """Start the server and wait until it is ready, however long its crash recovery takes.

    Right after a crash the dead server's children may still be leaving, and somebody may take the port between the
    look and the bind; both pass, so both are tried again for a while. Any other failure is reported at once.
    """
    if not Path(plan.home).is_dir():
        raise Failure(f"{plan.home} is gone.")
    if not plan.data.exists():
        initialise(plan)
    check(plan)
    prefix = setpriv([*server_user(plan, plan.data), *bound_to_parent()])
    deadline = time.monotonic() + 30
    while True:
        crashed = (plan.data / "postmaster.pid").exists()
        clear_away(plan)
        chosen = port or choose_port(plan)
        options = configure(plan, chosen)
        with Path(plan.home, "postgres.log").open("wb") as log:
            child = subprocess.Popen(
                [*prefix, plan.binary("postgres"), "-D", str(plan.data), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), start_new_session=True,
            )  # fmt: skip
        while child.poll() is None:
            running = read_postmaster(Path(plan.home))
            if running and running.pid == child.pid and running.ready:
                return child.pid
            time.sleep(0.02)
        if time.monotonic() > deadline or not (crashed or not is_free(chosen)):
            raise Failure(f"Postgres said:\n{last_output(plan)}")
        time.sleep(0.2)
