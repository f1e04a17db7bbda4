"""LOCAL does its work in shares, keeps what is done, and no input harms another."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from holdfast.apps.providers.local import process as processes
from holdfast.apps.providers.local import provider as local
from holdfast.apps.providers.local.process import Crashed, Model, Process
from holdfast.apps.providers.local.provider import Local
from holdfast.errors import Fatal, SchemaInvalid, Transient
from holdfast.lifecycles.batch.provider import Ended, Input, Running
from holdfast.objects.local import Folder
from tests.eventually import eventually
from tests.providers.jobs import ROOT, all_of, finish, job, needs, results
from tests.remote.site import serving

pytestmark = needs("transcription")
Write = Callable[..., list[Input]]


@pytest.fixture
def objects(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "objects").open()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Inputs that tell the model what to do."""

    def write(*commands: str) -> list[Input]:
        for number, command in enumerate(commands):
            (tmp_path / f"{number}.txt").write_text(command)
        return [Input(f"in-{number}", (tmp_path / f"{number}.txt").as_uri()) for number in range(len(commands))]

    return write


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Local]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    provider = Local()
    provider.speech = Model("tests.providers.fragile", answer_most=timedelta(seconds=30))
    yield provider
    await provider.close()


async def test_each_input_has_its_own_end(provider: Local, objects: Folder, write: Write) -> None:
    inputs = write("say one", "refuse it is so", "crash", "nonsense", "say two")
    found = await all_of(provider, job("transcription", objects), inputs)
    assert {key: (one.output, one.category) for key, one in found.items()} == {
        "in-0": ("one", None),
        "in-1": (None, "Fatal"),
        "in-2": (None, "SchemaInvalid"),
        "in-3": (None, "SchemaInvalid"),
        "in-4": ("two", None),
    }
    assert found["in-1"].error == "it is so"
    assert "crashed 2 times on this input. Its process ended by SIGSEGV." in str(found["in-2"].error)


async def test_a_poll_whose_time_is_over_leaves_the_rest_and_nothing_is_done_twice(
    provider: Local, objects: Folder, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "poll_spell", timedelta(0))
    one, inputs = job("transcription", objects), write(*(f"count {tmp_path / 'log'}" for _ in range(3)))
    assert await provider.submit(one, inputs) == await provider.submit(one, inputs) == one.token
    assert await provider.poll(one) == Running("at work", done=1)
    other = Local()  # another worker goes on
    other.speech = provider.speech
    assert [answer.done for answer in await finish(other, one)] == [2]
    assert (tmp_path / "log").read_text() == "xxx"
    assert set(await results(other, one, inputs)) == {"in-0", "in-1", "in-2"}
    assert await other.poll(one) == Ended("done", "succeeded")


async def test_a_job_is_found_once_it_was_submitted(provider: Local, objects: Folder, write: Write) -> None:
    one = job("transcription", objects)
    assert await provider.find(one) is None
    with pytest.raises(Fatal, match="no job"):
        await provider.poll(one)
    await provider.submit(one, write("say one"))
    assert await provider.find(one) == one.token
    await provider.cancel(one)
    with pytest.raises(SchemaInvalid, match="no model 'gpt'"):
        await provider.submit(job("completion", objects, "gpt"), [])


async def test_a_busy_model_lets_others_wait_elsewhere_and_a_cancelled_poll_frees_it(
    provider: Local, objects: Folder, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "left_to_itself", timedelta(0))
    hanging, quick = job("transcription", objects), job("transcription", objects)
    inputs = write("say one", f"hang {tmp_path / 'began'}")
    await provider.submit(hanging, inputs[1:])
    await provider.submit(quick, inputs[:1])
    polling = asyncio.create_task(provider.poll(hanging))
    await eventually(lambda: asyncio.to_thread((tmp_path / "began").exists))
    assert await provider.poll(quick) == Running("waiting for the model", done=0)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    await eventually(lambda: poll_until_ended(provider, quick))
    assert (await results(provider, quick, inputs[:1]))["in-0"].output == "one"
    assert await results(provider, hanging, inputs[1:]) == {}


async def poll_until_ended(provider: Local, one: object) -> bool:
    return isinstance(await provider.poll(one), Ended)  # type: ignore[arg-type]


async def test_a_cancelled_poll_leaves_a_model_that_gets_done_alive(
    provider: Local, objects: Folder, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "left_to_itself", timedelta(minutes=1))
    one, inputs = job("transcription", objects), write("say one")
    await provider.submit(one, inputs)
    polling = asyncio.create_task(provider.poll(one))
    await eventually(lambda: asyncio.to_thread(lambda: provider.speech.process))
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    assert provider.speech.process is not None
    before = provider.speech.process.pid
    await eventually(lambda: poll_until_ended(provider, one))
    assert provider.speech.process.pid == before


async def test_an_input_without_a_sign_of_life_is_given_up(provider: Local, objects: Folder, write: Write) -> None:
    provider.speech.answer_most = timedelta(seconds=3)
    found = await all_of(provider, job("transcription", objects), write("hang", "say one"))
    assert (found["in-0"].category, found["in-1"].output) == ("SchemaInvalid", "one")
    assert "no answer for 3 s" in str(found["in-0"].error)


async def test_a_process_that_is_slow_to_end_is_not_asked_the_next_thing(
    provider: Local, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next input would be blamed for what the one before did."""
    seen, read_errors = threading.Event(), Process._read_errors

    def late(process: Process) -> str:
        seen.wait(30)
        return read_errors(process)

    monkeypatch.setattr(Process, "_read_errors", late)
    hanging, quick = ({"path": one.uri.removeprefix("file://")} for one in write("hang", "say one"))
    provider.speech.answer_most = timedelta(seconds=3)
    try:
        with pytest.raises(Crashed, match="no answer"):
            await provider.speech.ask(hanging)
        assert await provider.speech.ask(quick) == "one"
    finally:
        seen.set()


async def test_a_model_killed_at_work_costs_one_more_try(
    provider: Local, objects: Folder, write: Write, tmp_path: Path
) -> None:
    one, inputs = job("transcription", objects), write(f"hang {tmp_path / 'began'}")
    await provider.submit(one, inputs)
    polling = asyncio.create_task(provider.poll(one))
    await eventually(lambda: asyncio.to_thread((tmp_path / "began").exists))
    write("say done")  # the next try finds another file
    assert provider.speech.process is not None
    os.kill(provider.speech.process.pid, signal.SIGKILL)
    assert isinstance(answer := await polling, Running)
    assert answer.done == 0
    await finish(provider, one)
    assert (await results(provider, one, inputs))["in-0"].output == "done"


async def test_a_model_killed_while_idle_is_started_anew(provider: Local, objects: Folder, write: Write) -> None:
    await all_of(provider, job("transcription", objects), write("say one"))
    assert provider.speech.process is not None
    before = provider.speech.process
    os.kill(before.pid, signal.SIGKILL)
    found = await all_of(provider, job("transcription", objects), write("say two"))
    assert (found["in-0"].output, provider.speech.process is before) == ("two", False)


async def test_a_model_that_cannot_be_loaded_blames_no_input(provider: Local, objects: Folder, write: Write) -> None:
    provider.speech = Model("tests.providers.nowhere", answer_most=timedelta(seconds=30))
    one, inputs = job("transcription", objects), write("say one")
    await provider.submit(one, inputs)
    with pytest.raises(Transient, match="No module named"):
        await provider.poll(one)
    assert await results(provider, one, inputs) == {}


async def test_an_address_that_does_not_answer_is_tried_three_times_and_holds_nobody_up(
    provider: Local, objects: Folder, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_FETCH_ALLOW", "127.0.0.1/32")
    with serving() as site:
        site.answer("/gone.wav", status=503)
        site.answer("/there.wav", b"say here")
        site.answer("/no", status=404)
        inputs = [Input("a", site.url("/gone.wav")), Input("b", site.url("/there.wav")), Input("c", site.url("/no"))]
        one = job("transcription", objects)
        await provider.submit(one, inputs)
        answers = await finish(provider, one)
        asked = [path for path, *_ in site.asked]
    assert [(running.done, running.again_in) for running in answers] == [
        (2, timedelta(seconds=10)),
        (2, timedelta(seconds=20)),
    ]
    assert (asked.count("/gone.wav"), asked.count("/there.wav")) == (3, 1)
    found = await results(provider, one, inputs)
    assert {key: (result.output, result.category) for key, result in found.items()} == {
        "a": (None, "Transient"),
        "b": ("here", None),
        "c": (None, "Fatal"),
    }


async def test_private_addresses_are_not_asked(provider: Local, objects: Folder) -> None:
    found = await all_of(provider, job("transcription", objects), [Input("a", "http://127.0.0.1:9/x.wav")])
    assert (found["a"].category, "not a public address" in str(found["a"].error)) == ("Fatal", True)


@pytest.mark.parametrize("uri", ["s3://bucket/a.wav", "gs://bucket/a.wav", "ftp://host/a.wav", "a.wav", ""])
def test_addresses_that_nobody_here_reads_are_refused_at_once(uri: str) -> None:
    assert "LOCAL reads recordings from" in str(Local().refuse("transcription", Input("a", uri)))
    assert Local().refuse("transcription", Input("a", "https://host/a.wav")) is None


PARENT = """
import asyncio, os, sys
from datetime import timedelta
from holdfast.apps.providers.local.process import Model
async def main():
    model = Model("tests.providers.fragile", answer_most=timedelta(seconds=60))
    asking = asyncio.ensure_future(model.ask({"path": sys.argv[1]}))
    while not os.path.exists(sys.argv[2]):
        await asyncio.sleep(0.01)
    heir = os.fork() if sys.argv[3] == "heir" else 0
    if sys.argv[3] == "heir" and not heir:
        import signal
        signal.pause()
    print(model.process.pid, heir, flush=True)
    await asking
asyncio.run(main())
"""


@pytest.mark.parametrize("left", ["nobody", "heir"])
def test_a_model_ends_with_a_worker_that_is_killed(tmp_path: Path, left: str) -> None:
    """Also where a process that the worker forked still holds the other end of its pipe."""
    (tmp_path / "input").write_text(f"hang {tmp_path / 'began'}")
    command = [sys.executable, "-c", PARENT, str(tmp_path / "input"), str(tmp_path / "began"), left]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        try:
            pid, heir = map(int, parent.stdout.readline().split())
            model = psutil.Process(pid)
        finally:
            parent.kill()
        try:
            gone, alive = psutil.wait_procs([model], timeout=20)
        finally:
            if heir:
                os.kill(heir, signal.SIGKILL)
    assert (len(gone), alive) == (1, [])


async def test_a_model_knows_no_keys(
    provider: Local, objects: Folder, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://user:geheim@nowhere/x")
    await all_of(provider, job("transcription", objects), write("say one"))
    assert provider.speech.process is not None
    assert "geheim" not in str(psutil.Process(provider.speech.process.pid).environ())
