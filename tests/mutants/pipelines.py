"""The mutants of pipelines."""

from tests.mutants.mutant import PIPELINE, SQL, Mutant

TESTS = "tests/lifecycles/pipeline"
STAGES = f"{TESTS}/test_stages.py"
VERDICT = f"{TESTS}/test_verdict.py"
CANCEL = f"{TESTS}/test_cancel.py"
CRASHES = f"{TESTS}/test_crashes.py"
EFFECTS = f"{PIPELINE}/sql/effects.sql"
STAGES_SQL = f"{PIPELINE}/sql/stages.sql"
HANDLERS = f"{PIPELINE}/handlers.py"

OF_PIPELINES = [
    Mutant(
        "a worker says how a job ended",
        "A job with a failed stage is completed.",
        EFFECTS,
        "perform holdfast.check_verdict(m.task_id, m.to_state);",
        "null;",
        "promises",
        (f"{VERDICT}::test_no_job_is_completed_while_a_stage_is_open",),
    ),
    Mutant(
        "skipped counts as well done",
        "A job of which no stage ran is completed.",
        STAGES_SQL,
        "count(*) filter (where s.status in ('completed', 'partial')) as well",
        "count(*) as well",
        "promises",
        (f"{STAGES}::test_a_job_of_which_no_stage_ran_has_failed",),
    ),
    Mutant(
        "partial counts as well done",
        "A job that lost a part of its work is completed.",
        STAGES_SQL,
        "min(s.number) filter (where s.status in ('failed', 'partial')) as badly",
        "min(s.number) filter (where s.status = 'failed') as badly",
        "promises",
        (f"{STAGES}::test_a_stage_with_problems_is_partial_with_its_errors_and_its_dependants_run",),
    ),
    Mutant(
        "a stage is done before those before it",
        "Stages are done in any order.",
        EFFECTS,
        "if v_early is not null then",
        "if false then",
        "promises",
        (f"{VERDICT}::test_no_stage_begins_or_ends_before_those_before_it_nor_twice",),
    ),
    Mutant(
        "a stage begins after a cancel",
        "A job that somebody cancelled begins another stage.",
        STAGES_SQL,
        "  elsif v_cancel then\n",
        "  elsif false then\n",
        "promises",
        (f"{TESTS}/test_races.py::test_a_cancel_is_seen_by_the_stage_that_begins_after_it",),
    ),
    Mutant(
        "a stage begins without the lease",
        "A worker that lost a job begins its next stage.",
        STAGES_SQL,
        "v_cancel bool := (holdfast.lock_held(p_job, p_attempt, p_token)).cancel_requested;",
        "v_cancel bool := (select t.cancel_requested from holdfast.task t where t.id = p_job for no key update);",
        "promises",
        (f"{VERDICT}::test_a_late_result_of_an_orphan_changes_nothing",),
    ),
    Mutant(
        "settings over those of others",
        "What a job found is laid over what another has found meanwhile.",
        EFFECTS,
        "where p.name = p_name and p.settings_number = (select",
        "where p.name = p_name and 0 <= (select",
        "promises",
        (f"{TESTS}/test_settings.py::test_a_job_keeps_the_settings_it_began_with",),
    ),
    Mutant(
        "a failed stage is inherited",
        "A retry does not run the stage that failed.",
        EFFECTS,
        "where s.task_id = v_old and s.status <> 'completed' and",
        "where s.task_id = v_old and s.status not in ('completed', 'failed', 'partial') and",
        "promises",
        (f"{TESTS}/test_retry.py::test_what_came_before_the_first_stage_that_went_wrong_is_inherited",),
    ),
    Mutant(
        "files of a retried job are deleted",
        "What a retry has inherited is gone while the retry is kept.",
        EFFECTS,
        "perform holdfast.keep_files(p_job), holdfast.delete_later",
        "perform holdfast.delete_later",
        "promises",
        (
            f"{TESTS}/test_retry.py::test_files_that_are_gone_are_not_inherited_and_others_are_kept_as_long_as_the_retry",
        ),
    ),
    Mutant(
        "a failure ends the job",
        "One failed stage ends all of them.",
        HANDLERS,
        'if outcome.category in (None, "Transient") and row.failures + 1 < most:',
        "if True:",
        "promises",
        (f"{STAGES}::test_a_middle_stage_that_fails_takes_its_dependants_along_and_the_others_run",),
    ),
    Mutant(
        "tries of all stages are counted together",
        "A stage has fewer tries because another had failed.",
        HANDLERS,
        "row.failures + 1 < most",
        "lease.attempt < most",
        "promises",
        (f"{STAGES}::test_a_stage_that_recovers_is_completed_and_what_was_done_before_is_not_done_again",),
    ),
    Mutant(
        "a stage that is done runs again",
        "What was done before a crash is done once more after it.",
        HANDLERS,
        "kept if row.is_done else await self.run_stage(row)",
        "await self.run_stage(row)",
        "promises",
        (f"{CRASHES}::test_a_worker_lost_after_a_stage_costs_nothing",),
    ),
    Mutant(
        "it is never too late to cancel",
        "A job whose stages are all done is cancelled.",
        HANDLERS,
        "if row is not rows[-1] or (await self.verdict()).state is None:",
        "if True:",
        "promises",
        (f"{CANCEL}::test_after_the_last_check_the_job_ends_as_its_stages_say",),
    ),
    Mutant(
        "whoever needs a failed stage runs",
        "A stage runs without what it needs.",
        HANDLERS,
        "if (status := self.status(need)) not in WELL:",
        'if (status := self.status(need)) == "never":',
        "promises",
        (f"{STAGES}::test_a_middle_stage_that_fails_takes_its_dependants_along_and_the_others_run",),
    ),
    Mutant(
        "a delayed task is stuck before it is due",
        "A job that is to start tonight has timed out by then.",
        f"{SQL}/submit.sql",
        "case when x.to_actor = 'worker' then greatest(coalesce(i.run_at, v_now + i.delay), v_now) else v_now end",
        "v_now",
        "promises",
        (f"{CRASHES}::test_a_job_that_is_to_start_later_is_not_stuck_until_then",),
    ),
]
