"""The stages of a pipeline, as they are declared: plain functions in an order, and what each of them needs.

A stage takes what it is named after: a parameter called like an earlier stage is that stage's result, every other one
is a parameter of the job. So `def brief(classify: list[Topic], length: int = 3)` needs the stage `classify`, and a job
may say `length`. Names of stages count whatever their case.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast.engine import values
from holdfast.engine.params import MORE, joined, parameters, published
from holdfast.engine.task import Json
from holdfast.errors import AppInvalid

longest_name = 100

When = str | Callable[..., bool]


@dataclass(frozen=True)
class Stage:
    """A function, and when and how it is run."""

    name: str
    function: Callable[..., Any]
    needs: tuple[str, ...]
    when: When | None
    required: bool
    retries: int
    timeout: timedelta | None

    def published(self) -> dict[str, Json]:
        """What a job keeps of it."""
        flag = self.when if isinstance(self.when, str) else None
        return {
            "name": self.name,
            "needs": list(self.needs),
            "when": flag or ("decided as it runs" if self.when else None),
            "required": self.required,
            "retries": self.retries,
            "timeout_seconds": self.timeout and self.timeout.total_seconds(),
        }


class Stages:
    """The stages of one pipeline. Raises AppInvalid for what could not be run."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.stages: list[Stage] = []

    def find(self, name: str) -> Stage | None:
        """The stage of this name, whatever its case."""
        return next((one for one in self.stages if one.name.lower() == name.lower()), None)

    def add(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        needs: Iterable[str] | str,
        when: When | None,
        required: bool | None,
        retries: int,
        timeout: timedelta | None,
    ) -> Stage:
        """Another stage, after those that are there. The first one is required unless it says otherwise."""
        self._check_function(name, function, when)
        asked = [needs] if isinstance(needs, str) else list(needs)
        for one in asked:
            if self.find(one) is None:
                raise self._wrong(
                    f"{name} needs {one!r}, and there is no such stage before it.",
                    f"Before it are: {', '.join(each.name for each in self.stages) or 'none'}.",
                )
        for each in (function, when):
            if callable(each):
                asked += [one for one, given in parameters(each).items() if given.default is given.empty]
        found = [stage.name for stage in map(self.find, asked) if stage]
        stage = Stage(
            name, function, tuple(dict.fromkeys(found)), when,
            not self.stages if required is None else required, retries, timeout,
        )  # fmt: skip
        self.stages.append(stage)
        try:
            self.params()
        except AppInvalid:
            self.stages.pop()
            raise
        return stage

    def params(self) -> dict[str, inspect.Parameter]:
        """What a job may be told: the parameters of all functions that name no stage, and the flags of `when`."""
        found: dict[str, inspect.Parameter] = {}
        for stage in self.stages:
            if isinstance(stage.when, str):
                self._join(found, flag(stage.when), stage)
            for function in (stage.function, stage.when if callable(stage.when) else None):
                if function is None:
                    continue
                for name, given in parameters(function).items():
                    if given.kind is given.VAR_KEYWORD:
                        found.setdefault(MORE, given.replace(name="_more"))
                    elif not self.find(name):
                        kind = values.hints(function).get(name, Any)
                        self._join(found, given.replace(kind=given.KEYWORD_ONLY, annotation=kind), stage)
        return found

    def signature(self) -> inspect.Signature:
        """How a job is started. What it must be told may be a setting: the database says what is missing."""
        found = sorted(self.params().values(), key=lambda one: one.kind)
        return inspect.Signature(
            [
                one if one.kind is one.VAR_KEYWORD or one.default is not one.empty else one.replace(default=None)
                for one in found
            ]
        )

    def published(self) -> tuple[list[Json], dict[str, Json]]:
        """The stages and the parameters, as the database is told of them."""
        return [stage.published() for stage in self.stages], published(self.params())

    def _join(self, found: dict[str, inspect.Parameter], one: inspect.Parameter, stage: Stage) -> None:
        """Two stages may take the same parameter if they mean the same by it."""
        both = joined(found.get(one.name), one)
        if both is None:
            raise self._wrong(
                f"{stage.name} takes {one}, and an earlier stage {found[one.name]}.",
                "Let both say the same, or rename one.",
            )
        found[one.name] = both

    def _check_function(self, name: str, function: Callable[..., Any], when: When | None) -> None:
        if not callable(function) or not 1 <= len(name) <= longest_name or not name.isidentifier():
            raise self._wrong(f"{name!r} is no name of a stage.", "Write @pipeline.stage above a function.")
        if name.lower() in {one.lower() for one in self.params()}:
            raise self._wrong(f"{name} is a parameter of an earlier stage.", "Name one of them otherwise.")
        if self.find(name):
            raise self._wrong(
                f"Two stages cannot both be called {name}.", "Name one otherwise: @pipeline.stage('name')."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise self._wrong(f"{name} yields, and a stage returns once.", "Return a list.")
        for one in (function, when):
            for given in parameters(one).values() if callable(one) else ():
                if given.kind in (given.POSITIONAL_ONLY, given.VAR_POSITIONAL):
                    raise self._wrong(f"{name} takes {given} by its place.", "A stage is called by names.")
                if given.name.lower() == name.lower():
                    raise self._wrong(f"{name} takes a parameter that is called like itself.", "Rename one of them.")
        if when is not None and not isinstance(when, str) and not callable(when):
            raise self._wrong(f"{name}: when={when!r} is no flag.", "Name one, or pass a function that decides.")
        if isinstance(when, str) and (not when.isidentifier() or self.find(when)):
            raise self._wrong(f"{name}: when={when!r} is no flag.", 'Name a flag of the job: when="enable_evaluation".')

    def _wrong(self, problem: str, fix: str) -> AppInvalid:
        return AppInvalid(f"Pipeline {self.pipeline}: {problem}", fix=fix)


def flag(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
