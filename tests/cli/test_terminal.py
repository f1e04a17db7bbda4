"""At a real terminal: colour, columns that fit, a display that moves; and nothing that others wrote steers it."""

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from uuid import UUID

import pytest

from holdfast.engine.store.commands import Store
from holdfast.engine.task import Failed
from holdfast.testing import Database
from tests.cli.conftest import Keyboard, Stage
from tests.lifecycles.dispatch.graphs import FATAL, Running
from tests.promises.stage import submit, take_one

EVIL_NAME = "[red]x\x1b[31m\u202e"
EVIL_ERROR = "[bold]boo\x1b]0;owned\x07\x9b2J\rgone"


class Terminal:
    """A command with a terminal for its three streams."""

    def __init__(self, database: Database, *arguments: str, columns: int = 80, api: str = "") -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "NO_COLOR"))}
        clean |= {"HOLDFAST_API": api} if api else {}
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**clean, "HOLDFAST_URL": database.url, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.printed = ""

    def until(self, text: str | None = None) -> "Terminal":
        """Read until this text was printed, or to the end."""
        while text is None or text not in self.printed:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # how Linux tells the end
                piece = b""
            if not piece:
                break
            self.printed += self._decoder.decode(piece)
        if text is None:
            self.process.wait(30)
            os.close(self._ours)
        return self


def plain(printed: str) -> str:
    """What a terminal shows, on one line and without what steers it."""
    return " ".join(re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", printed).split())


async def hostile(store: Store) -> UUID:
    await submit(store, EVIL_NAME, payload={"text": EVIL_ERROR}, max_attempts=1)
    lease = await take_one(store, worker="w1")
    await store.keep(lease, "[link=x]\x1b[2J", EVIL_ERROR)
    await store.finish(lease, Failed("Fatal", EVIL_ERROR, step="\x1b[1m"))
    return lease.task_id


def steering(text: str) -> list[str]:
    """What would steer a terminal, beyond the colours and line ends that are ours."""
    return re.findall("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202e]|\r(?!\n)", re.sub("\x1b\\[[0-9;]*m", "", text))


@pytest.mark.parametrize("command", ["show", "why", "events", "ls", "watch"])
def test_what_others_wrote_is_printed_and_steers_nothing(holdfast: Keyboard, stage: Stage, command: str) -> None:
    task = stage(hostile)
    plain = holdfast(command, *([] if command == "ls" else [str(task)])).out
    assert steering(plain) == []
    assert "\x1b" not in plain
    assert "[bold]boo" in plain


def test_it_steers_no_real_terminal_either(database: Database, stage: Stage) -> None:
    printed = Terminal(database, "show", str(stage(hostile))).until().printed
    assert steering(printed) == []
    assert "owned" in printed
    assert "[red]x\\x1b[31m\\u202e" in printed
    assert "[link=x]" in printed


def test_an_error_of_the_database_steers_nothing(holdfast: Keyboard, stage: Stage) -> None:
    task = stage(hostile)
    refused = holdfast("retry", str(task), "--from-step", "\x1b[31mno")
    assert (refused.code, steering(refused.err)) == (2, [])


def test_a_list_fits_the_terminal_and_is_whole_in_a_pipe(database: Database, holdfast: Keyboard, stage: Stage) -> None:
    long = "a_task_with_a_name_that_is_far_longer_than_any_column_should_be_" * 2
    stage(lambda store: submit(store, long))
    narrow = Terminal(database, "ls", columns=80).until().printed
    assert "\x1b[" in narrow
    assert max(len(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in narrow.splitlines()) <= 80
    assert "…" in narrow
    assert long in holdfast("ls").out


def test_a_list_of_which_nothing_may_be_cut_is_whole_in_a_narrow_terminal(database: Database, stage: Stage) -> None:
    task = stage(hostile)
    printed = Terminal(database, "inbox", "retry", "--category", "Fatal", "--dry-run", columns=60).until().printed
    assert str(task) in printed


def test_watch_shows_the_nodes_of_a_run_and_how_each_has_ended(database: Database, stage: Stage) -> None:
    async def half_a_run(store: Store) -> Running:
        run = await Running.of(store, "load -> clean", "slow")
        await run.end(load=FATAL)
        return run

    run = stage(half_a_run)
    watching = Terminal(database, "watch", str(run.id)).until("slow")
    assert "\u2717 load failed" in plain(watching.printed)
    assert "\u2298 clean cancelled" in plain(watching.printed)
    stage(lambda store: store.cancel(run.id))
    watching.until()
    assert watching.process.returncode == 7
    assert "level" in watching.printed.rpartition("slow")[0].rpartition("load")[0]


def test_watch_shows_how_it_goes_and_how_it_ended(database: Database, stage: Stage) -> None:
    task = stage(lambda store: submit(store, "ingest"))
    watching = Terminal(database, "watch", str(task)).until("No worker serves queue default.")
    assert "ingest" in watching.printed
    stage(lambda store: store.cancel(task, "asked to"))
    watching.until()
    assert (watching.process.returncode, "Canceled" in watching.printed, "asked to" in watching.printed) == (
        7,
        True,
        True,
    )


def test_ctrl_c_leaves_the_task_alone_and_is_exit_130(database: Database, stage: Stage) -> None:
    task = stage(lambda store: submit(store, "ingest"))
    watching = Terminal(database, "watch", str(task)).until("No worker serves")
    watching.process.send_signal(signal.SIGINT)
    watching.until()
    assert watching.process.returncode == 130
    assert "It goes on." in watching.printed
    assert "Traceback" not in watching.printed
    assert watching.printed.rindex("\x1b[?25h") > watching.printed.rindex("\x1b[?25l")
    assert stage(lambda store: store.read(task))["state"] == "Queued"


def test_start_at_a_terminal_says_how_to_go_on(database: Database) -> None:
    printed = Terminal(database, "start", "send").until().printed
    assert "Started " in printed
    assert "holdfast watch " in printed
