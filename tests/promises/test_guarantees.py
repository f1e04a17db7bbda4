"""Every promise of docs/guarantees.md has a witness in the first tier: a test that `make test` never leaves out."""

import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "guarantees.md"

WITNESSES = {
    "Only declared moves":
        "promises/test_matrix.py::test_through_the_functions_exactly_the_declared_pairs_happen",
    "One task, one lease": "promises/test_leases.py::test_a_task_is_claimed_by_one_worker_alone",
    "A stale worker changes nothing": "crash/test_zombies.py::test_twenty_stopped_processes_come_back_in_vain",
    "Readers of a dataset see": "datasets/test_readers.py::test_cutovers_and_rollbacks_show_nobody_a_mix",
    "What was answered outlives": "crash/test_acknowledged.py::test_a_settle_that_was_answered_outlives_the_server",
    "A completion counts once":
        "promises/test_leases.py::test_the_winning_settle_repeated_gets_the_same_answer_and_does_nothing",
    "A step is done once":
        "promises/test_steps.py::test_the_first_to_write_a_step_wins_and_all_others_get_its_result",
    "A lost worker loses nothing":
        "promises/test_attempts.py::test_the_first_lost_worker_is_made_good_at_once_the_third_is_one_too_many",
    "A task that kills its workers":
        "promises/test_attempts.py::test_the_first_lost_worker_is_made_good_at_once_the_third_is_one_too_many",
    "Limits hold to the second": "promises/test_limits.py::test_a_limit_moves_the_task_to_the_second",
    "Final is final": "promises/test_matrix.py::test_history_and_finished_tasks_never_change",
    "Effects travel": "promises/test_effects.py::test_an_effect_that_refuses_undoes_the_move",
    "The last of its dependencies":
        "promises/test_dependencies.py::test_dependencies_that_end_at_the_same_moment_release_exactly_once",
    "The same key": "promises/test_keys.py::test_fifty_callers_with_one_key_make_one_task",
    "No more than allowed": "promises/test_budgets.py::test_two_hundred_at_once_get_no_more_than_there_is",
    "Nothing is stuck": "promises/test_explain.py::test_a_task_says_why_it_is_where_it_is",
    "The history proves itself": "promises/test_verify.py::test_a_lie_is_found",
    "Who follows the live feed":
        "promises/test_feed.py::test_every_committed_move_comes_once_and_in_order_whatever_writers_do",
    "A runner that dies": "worker/test_crashes.py::test_what_a_killed_runner_ran_is_run_again_at_once",
    "What brings its workers down":
        "worker/test_crashes.py::test_a_task_that_kills_its_worker_ends_after_three_and_harms_nobody",
    "A stuck handler": "worker/test_crashes.py::test_a_stuck_handler_keeps_its_lease_and_can_be_cancelled",
    "A worker that lost a task": "worker/test_fences.py::test_a_lease_that_is_lost_stops_its_task_and_no_other",
    "User tasks: credits":
        "lifecycles/analysis/test_credits.py::test_of_many_at_once_as_many_queue_as_there_are_credits_for",
    "What a worker reads":
        "lifecycles/analysis/test_attacks.py::test_a_late_upload_changes_nothing_that_a_worker_reads",
    "Graphs: a node begins once":
        "lifecycles/dispatch/test_graphs.py::test_the_last_two_parents_see_each_other_however_they_interleave",
    "Pipelines: a job ends":
        "lifecycles/pipeline/test_verdict.py::test_the_job_ends_as_its_stages_say_and_in_no_other_way",
    "A stage that is done":
        "lifecycles/pipeline/test_kills.py::test_another_worker_goes_on_at_the_stage_that_was_running",
    "Batches: a provider begins": "lifecycles/batch/test_schedules.py::test_at_openai_no_job_is_begun_twice",
    "Batches: nothing is left": "lifecycles/batch/test_ending.py::test_a_cancelled_batch_leaves_nothing_running",
    "Batches: a batch ends": "lifecycles/batch/test_rules.py::test_a_batch_ends_as_its_jobs_say",
    "A long queue": "load/test_plans.py::test_hot_statements_touch_a_bounded_number_of_pages",
}  # fmt: skip
"""The promise by how it begins, and the test."""

rows = re.findall(r"^\| (.+?) \| .+ \| (.+?) \|$", PAGE.read_text(), re.M)[1:]
promises = [promise for promise, _ in rows if not promise.startswith("---")]


def test_each_promise_has_one() -> None:
    assert len(promises) == len(WITNESSES)
    assert [promise for promise in promises if sum(map(promise.startswith, WITNESSES)) != 1] == []


@pytest.mark.parametrize("witness", sorted(set(WITNESSES.values())))
def test_the_first_tier_runs_it(witness: str) -> None:
    file, _, name = witness.partition("::")
    module = importlib.import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}")
    test = getattr(module, name)
    marks = [*marks_of(module), *marks_of(test)]
    assert not is_left_out(marks)
    for mark in marks:
        if mark.name == "parametrize":
            cases = mark.args[1]
            assert any(not is_left_out(getattr(case, "marks", ())) for case in cases), f"no case of {mark.args[0]}"


def marks_of(marked: object) -> list[Any]:
    marks = getattr(marked, "pytestmark", [])
    return marks if isinstance(marks, list) else [marks]


def is_left_out(marks: Iterable[Any]) -> bool:
    return any(mark.name in ("deep", "long") for mark in marks)
