"""Sample work that moves: `holdfast up --demo` runs it, with no network and no account.

A small newsletter: pages are read, summed up and sent; some calls fail and are tried again, one is beyond help and
waits in the inbox, a digest waits for its pages. Once a minute the orders of a shop are uploaded and analysed; the
papers of a library are ingested, of which most are as they were, one is new, and one may be torn; and the night desk
makes a brief, now and then of a feed that cannot be sorted whole. What it finds out about its thresholds is its own:
the newsroom is left as it is, for you. Calls to the harbour office are transcribed in batches on this machine, and a
few questions are answered, where the models are installed. Every few minutes the nightly graph publishes the prices of
the fish market, and the harbour master is asked whether the beacon may be lit. By the clock a bell is rung.
`keep_moving` starts a new round every ten seconds, as a task that starts itself again.
"""

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.approvals.asking import ask
from holdfast.apps.agents import PROFILE_MY_DATA
from holdfast.apps.demo import samples
from holdfast.apps.newsroom import is_installed
from holdfast.apps.newsroom.feeds import odd_feed, shipped_feeds
from holdfast.apps.nightly import is_installed as can_make_tables
from holdfast.engine.task import Submission
from holdfast.errors import Fatal, RateLimited, Transient, Unanswered
from holdfast.execution.context import current, progress, step, usage
from holdfast.lifecycles.analysis.intake import Intake
from holdfast.lifecycles.analysis.store import Analyses, Promise
from holdfast.objects.scratch import scratch
from holdfast.remote.places import objects_of
from holdfast.sdk.client import Holdfast

hf = Holdfast()
hf.tool(PROFILE_MY_DATA)
if samples.can_ingest:
    hf.documents()
hf.newsroom()
night_newsroom = hf.newsroom("night-desk")
nightly = hf.nightly()
hf.providers()

round_every = timedelta(seconds=10)
pages_per_round = 4
rounds_per_minute = timedelta(minutes=1) // round_every
published_minutes = 5

TEXTS = (
    "A holdfast is the root-like part by which kelp clings to the rock while the sea pulls at it from every side.",
    "Tide tables were among the first things that were ever computed by machine, and ships sailed by them.",
    "A lighthouse keeper wrote down every hour of every night; a gap in the book was asked about.",
    "Nets are mended on land, knot by knot, because at sea there is no time to find the hole.",
)


@hf.task(retries=4, queue="demo")
async def sum_up(page: int) -> dict[str, int]:
    """Read a page, count its words, keep the longest; three steps, each kept when it is done."""
    text = await step("read", read, page)
    counts = await step("counted", count, text)
    progress(2, 3, note="choosing words")
    return await step("chosen", choose, counts)


@hf.task(retries=5, queue="demo")
async def send(reader: str) -> str:
    """A call that fails now and then, as calls do."""
    luck = random.random()  # noqa: S311
    if luck < 0.25:
        raise Transient("The mail server hung up.", code="hung-up")
    if luck < 0.35:
        raise RateLimited("Too many letters at once.", retry_after=3)
    return f"sent to {reader}"


@hf.task(queue="demo")
def engrave(pages: int) -> str:
    """Something slow that shows how far it is."""
    for page in range(pages):
        step.sync(f"page {page + 1}", press, page)
        progress(page + 1, pages, note=f"page {page + 1} of {pages}")
    return f"{pages} pages"


@hf.task(queue="demo")
async def digest(pages: list[int]) -> str:
    """Waits for the pages it is made of."""
    return f"a digest of {len(pages)} pages"


@hf.task(queue="demo")
async def translate(language: str) -> str:
    """Beyond help: it goes to the inbox at once."""
    raise Fatal(f"No translator here speaks {language}.", code="no-translator")


@hf.task(queue="demo")
async def analyse_orders(round: int) -> str:  # noqa: A002
    """A user's task: this month's orders, and those of the month before to compare with. Paid by the shop's wallet."""
    agents = [agent.name for agent in PROFILE_MY_DATA.agents]
    with scratch() as folder:
        files = {
            role: (Promise(role, f"orders-{round + n}.csv", "text/csv"),
                   samples.write_orders(folder / role, round + n, shifted=n == 0))
            for role, n in (("primary", 0), ("baseline", -1))
        }  # fmt: skip

        async def bring() -> UUID:
            store = await hf.open_store()
            await Analyses.over(store).top_up("shop", len(agents), "demo", key=f"demo-{round}")
            intake = Intake(store, objects_of(hf.settings))
            return await intake.bring(PROFILE_MY_DATA.id, agents, files, owner="shop", key=f"demo-{round}-orders")

        return str(await hf.acall(bring()))


@hf.task(queue="demo")
async def ingest_papers(round: int, torn: bool = False) -> str:  # noqa: A002
    """A run over the papers of a library. Where they were brought is kept in steps: a crash brings no second set."""
    papers = await bring(samples.LIBRARY, samples.write_papers, round, torn=torn)
    return await samples.start_ingestion(papers, key=f"demo-{current().task_id}")


@hf.task(queue="demo")
async def transcribe_calls(round: int, cut_off: bool = False) -> str:  # noqa: A002
    """A batch of recordings for the model on this machine; one that is cut off makes it partly complete."""
    urls = [path.as_uri() for path in samples.recordings(round)]
    if cut_off:
        urls += await bring(samples.LOCAL_OWNER, samples.write_damaged, round)
    return await samples.start_batch("transcription", urls, key=f"demo-{current().task_id}")


@hf.task(queue="demo")
async def answer_questions(round: int) -> str:  # noqa: A002
    """A batch of prompts for the small model on this machine."""
    urls = await bring(samples.LOCAL_OWNER, samples.write_questions, round)
    return await samples.start_batch("completion", urls, key=f"demo-{current().task_id}")


async def bring(owner: str, write: Callable[..., list[Path]], round_: int, **more: Any) -> list[str]:
    """Upload files in two steps: after a crash they are not uploaded to a second place."""
    place = await step("place", samples.open_place, owner)
    return await step("brought", samples.upload, objects_of(hf.settings), place, write, round_, **more)


@hf.task(queue="demo")
async def publish_prices(round: int) -> str:  # noqa: A002
    """A run of the nightly graph; every other one has a column more, which makes a generation of another schema."""
    with_share = round // (published_minutes * rounds_per_minute) % 2 == 1
    run = await nightly.opts(key=f"demo-{round}-prices", tags=["demo"]).astart(days=3, with_share=with_share)
    return str(run.id)


@hf.task(queue="demo")
async def light_beacon(round: int) -> str:  # noqa: A002
    """A person is asked: `holdfast questions` shows it. Meanwhile no worker waits."""
    try:
        answer = await ask("light", f"May the beacon be lit for round {round}?", within="10m")
    except Unanswered:
        return "left dark: no answer came"
    return "lit" if answer.get("approved") else "left dark"


@hf.task(queue="demo")
def ring_bell(at: datetime) -> str:
    """What the clock starts, once for each due time: `holdfast cron` shows it."""
    return f"rung for {at:%H:%M}"


hf.cron("*/5 * * * *", ring_bell, name="harbour-bell", timezone="Europe/Berlin", at="at")


@hf.task(queue="demo")
async def keep_moving(round: int) -> int:  # noqa: A002
    """Start a round of sample work, and the next one. Every start has a key: after a crash nothing is started twice."""

    def options_with_tag(what: str, **options: Any) -> dict[str, Any]:
        return {"key": f"demo-{round}-{what}", "tags": ["demo", f"round:{round}"], **options}

    pages = [await sum_up.opts(**options_with_tag(f"page-{n}")).astart(round + n) for n in range(pages_per_round)]
    await digest.opts(**options_with_tag("digest", after=pages)).astart(list(range(pages_per_round)))
    for reader in ("ada", "grace", "joan"):
        await send.opts(**options_with_tag(f"letter-{reader}", priority=3)).astart(reader)
    await engrave.opts(**options_with_tag("plate")).astart(6)
    for what, task, given in occasional_work(round):
        await task.opts(**options_with_tag(what)).astart(**given)
    if round % 10 == 0:
        await translate.opts(**options_with_tag("translation")).astart("Klabautermannisch")
    await hf.asubmit([next_round(after=round)])
    return round


def occasional_work(round_: int, *, is_first: bool = False) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """What a round starts now and then: a name, the task, and what it takes. The first has all of it."""

    def is_due(minutes: int) -> bool:
        return is_first or round_ % (minutes * rounds_per_minute) == 0

    if can_make_tables() and is_due(1):
        yield "orders-task", analyse_orders, {"round": round_}
    if samples.can_ingest and is_due(1):
        yield "papers", ingest_papers, {"round": round_, "torn": is_due(5)}
    if is_installed() and is_due(1):
        feeds = [*shipped_feeds(), *([odd_feed()] if is_due(2) and not is_first else [])]
        yield "brief", night_newsroom, {"feeds": feeds, "enable_evaluation": True, "enable_auto_optimize": is_first}
    if samples.can_transcribe and is_due(1):
        yield "calls", transcribe_calls, {"round": round_, "cut_off": is_due(3)}
    if samples.can_complete and is_due(5):
        yield "questions", answer_questions, {"round": round_}
    if can_make_tables() and is_due(published_minutes):
        yield "prices-task", publish_prices, {"round": round_}
    if is_due(published_minutes):
        yield "beacon", light_beacon, {"round": round_}


def first_work() -> list[Submission]:
    """What can be seen at once, and the first round."""
    number = round_now()
    work = [
        task.opts(key=f"demo-{number}-first-{what}", tags=["demo"]).submission(**given)
        for what, task, given in occasional_work(number, is_first=True)
    ]
    return [*work, next_round()]


def round_now() -> int:
    return int(time.time() // round_every.total_seconds())


def next_round(after: int | None = None) -> Submission:
    """The first round now, or the one that follows another ten seconds later."""
    number = round_now() if after is None else after + 1
    delay = None if after is None else round_every
    return keep_moving.opts(key=f"demo-round-{number}", delay=delay, tags=["demo"]).submission(number)


def read(page: int) -> str:
    return TEXTS[page % len(TEXTS)]


def count(text: str) -> dict[str, int]:
    usage("word-counter", tokens_in=len(text.split()), cost_cents=0.001)
    return dict(Counter(word.strip(".,;").lower() for word in text.split()))


def choose(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-len(entry[0]), entry[0]))[:3])


def press(page: int) -> str:
    """Something that takes a moment: a seal that is hard to make."""
    seal = f"page {page}".encode()
    for _ in range(600_000):
        seal = hashlib.sha256(seal).digest()
    return seal.hex()
