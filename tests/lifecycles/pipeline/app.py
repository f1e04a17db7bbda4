"""A pipeline whose stages do as the script says: by script, and counted."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast import Fatal, Holdfast, RateLimited, SchemaInvalid, Transient
from holdfast.pipeline import Skip, keep_settings, output, problem

T = TypeVar("T")
Script = dict[str, Any] | None

NAMES = ("INGEST", "CLASSIFY", "NEUTRALIZE", "BRIEF", "SUMMARY", "EVALUATION", "OPTIMIZATION")
ALL_ON: dict[str, Any] = {"enable_evaluation": True, "enable_auto_optimize": True}
RAN: Counter[str] = Counter()
ACTS: dict[str, Callable[[str], None]] = {}
"""What a test does within a stage, by the word that the script says."""

hf = Holdfast()
press = hf.pipeline("press", title="Seven stages that do as the script says", retries=2)


def do(name: str, script: Script, value: T) -> T:
    """Count the run, then do what the script says of this stage; a list says it of one run after the other."""
    RAN[name] += 1
    action = (script or {}).get(name)
    if isinstance(action, list):
        action = action[RAN[name] - 1] if RAN[name] <= len(action) else None
    match action:
        case "fatal":
            raise Fatal(f"{name} is broken.", code="broken")
        case "invalid":
            raise SchemaInvalid(f"{name} cannot read this.", code="unread")
        case "transient":
            raise Transient(f"{name} did not answer.", code="silent")
        case "limited":
            raise RateLimited(f"{name} is asked to wait.", retry_after=60)
        case "surprise":
            raise RuntimeError(f"{name} never saw this.")
        case "partial":
            problem(f"{name}: one of two was lost.")
        case "skip":
            raise Skip(f"{name} has nothing to do.")
        case "hang":
            while True:
                threading.Event().wait(0.001)
        case str():
            ACTS[action](name)
    return value


@press.stage("INGEST")
def ingest(script: Script = None, articles: int = 2) -> list[int]:
    return do("INGEST", script, list(range(articles)))


@press.stage("CLASSIFY")
def classify(ingest: list[int], script: Script = None) -> dict[str, int]:
    return do("CLASSIFY", script, {str(one): one * 2 for one in ingest})


@press.stage("NEUTRALIZE", needs="classify")
def neutralize(ingest: list[int], script: Script = None) -> list[int]:
    return do("NEUTRALIZE", script, [one + 1 for one in ingest])


@press.stage("BRIEF")
def brief(classify: dict[str, int], neutralize: list[int] | None = None, script: Script = None) -> str:
    text = f"{len(classify)} articles, {len(neutralize or [])} softened"
    output("brief.md", text)
    return do("BRIEF", script, text)


@press.stage("SUMMARY", needs="brief")
def summary(ingest: list[int], script: Script = None) -> dict[str, int]:
    return do("SUMMARY", script, {"articles": len(ingest)})


@press.stage("EVALUATION", when="enable_evaluation")
def evaluation(brief: str, script: Script = None) -> float:
    return do("EVALUATION", script, len(brief) / 100)


@press.stage("OPTIMIZATION", when="enable_auto_optimize")
def optimization(evaluation: float, articles: int = 2, script: Script = None) -> int:
    keep_settings(articles=articles + 1)
    return do("OPTIMIZATION", script, articles + 1)
