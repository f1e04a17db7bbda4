"""The mutants of batches."""

from tests.mutants.mutant import BATCH, Mutant

TESTS = "tests/lifecycles/batch"
RULES = f"{TESTS}/test_rules.py"
SUBMITTING = f"{TESTS}/test_submitting.py"
POLLING = f"{TESTS}/test_polling.py"
ENDING = f"{TESTS}/test_ending.py"
EFFECTS = f"{BATCH}/sql/effects.sql"
JOBS = f"{BATCH}/sql/jobs.sql"
HANDLERS = f"{BATCH}/handlers.py"

OF_BATCHES = [
    Mutant(
        "a batch is in progress without jobs",
        "A batch is left in progress that no poll will ever end.",
        EFFECTS,
        "and not exists (select from holdfast.batch_job j where j.task_id = m.task_id) then",
        "and false then",
        "promises",
        (f"{RULES}::test_a_batch_without_jobs_is_not_in_progress",),
    ),
    Mutant(
        "a worker says how a batch ended",
        "A batch is completed of which a part failed.",
        EFFECTS,
        "perform holdfast.check_batch_verdict(m.task_id, m.to_state);",
        "null;",
        "promises",
        (f"{RULES}::test_a_batch_ends_as_its_jobs_say",),
    ),
    Mutant(
        "invalid inputs do not count",
        "A batch is completed though an input was never done.",
        EFFECTS,
        "and (select b.invalid = '[]' from holdfast.batch b where b.task_id = p_task)",
        "",
        "promises",
        (f"{TESTS}/test_planning.py::test_what_can_never_be_done_is_set_aside_and_counts_as_failed",),
    ),
    Mutant(
        "nobody stops what runs",
        "A cancelled batch leaves its jobs running at the provider.",
        EFFECTS,
        "if exists (select from holdfast.batch_job j where j.task_id = p_task and j.running)",
        "if false",
        "promises",
        (f"{ENDING}::test_a_cancelled_batch_leaves_nothing_running",),
    ),
    Mutant(
        "a job is reported without the lease",
        "A worker that was given up writes over what another found out.",
        JOBS,
        "v_cancel bool := (holdfast.lock_held(p_holder, p_attempt, p_token)).cancel_requested;",
        "v_cancel bool := (select t.cancel_requested from holdfast.task t where t.id = p_holder for no key update);",
        "promises",
        (f"{RULES}::test_a_worker_that_lost_the_lease_reports_nothing",),
    ),
    Mutant(
        "a job is begun after a cancel",
        "A job is submitted for a batch that somebody cancelled.",
        JOBS,
        "if v_status = 'cancel' and v_event ->> 'verb' = 'intend' then",
        "if false then",
        "promises",
        (f"{RULES}::test_after_a_wish_to_cancel_nothing_is_intended",),
    ),
    Mutant(
        "an error that is reported twice counts twice",
        "A lost connection to the database fails a job.",
        JOBS,
        "when v_verb = 'stumble' then p_job.transient_failures = (p_event ->> 'failures')::int",
        "when v_verb = 'stumble' then true",
        "promises",
        (f"{RULES}::test_what_is_reported_twice_counts_once",),
    ),
    Mutant(
        "failures count that are not in a row",
        "A job fails over three bad moments in a day.",
        JOBS,
        "if v_verb in ('accept', 'absent', 'poll', 'end', 'finish') then",
        "if v_verb in ('accept', 'absent', 'end', 'finish') then",
        "promises",
        (f"{POLLING}::test_failures_that_are_not_in_a_row_fail_nothing",),
    ),
    Mutant(
        "a job is submitted without an intent",
        "Nobody knows of a job that was begun right before a crash.",
        HANDLERS,
        "            job = (await self.report(intent)).get(job.number, job)\n",
        "",
        "promises",
        (SUBMITTING,),
    ),
    Mutant(
        "what may have been begun is submitted again",
        "A lost answer is two jobs.",
        HANDLERS,
        "if in_doubt and not (self.provider.repeats_submit and job.transient_failures < repeats_at_most):",
        "if False:",
        "promises",
        (f"{SUBMITTING}::test_a_lost_answer_is_one_job_which_is_found_and_adopted",),
    ),
    Mutant(
        "a listing is believed too early",
        "A job that is listed late is begun twice.",
        HANDLERS,
        "if left := self.unlisted_for(job):\n            await self.report(",
        "if False:\n            await self.report(",
        "promises",
        (f"{SUBMITTING}::test_a_job_that_a_listing_shows_late_is_not_begun_again",),
    ),
    Mutant(
        "who cannot tell has none",
        "A job is begun twice at a provider that has no list.",
        HANDLERS,
        "await self.report(self.park_event(job, reason))\n            return None\n        except Failure",
        'return (await self.report(event(job, "absent"))).get(job.number)\n        except Failure',
        "promises",
        (f"{SUBMITTING}::test_a_provider_that_cannot_tell_leaves_the_job_to_a_person",),
    ),
    Mutant(
        "a request to slow down is a failure",
        "A busy provider fails jobs.",
        HANDLERS,
        "return self.wait_event(job, await self.slow_down(error), error.message)",
        "return stumble_event(job, error, pause)",
        "promises",
        (f"{POLLING}::test_a_request_to_slow_down_is_no_failure_and_all_wait_for_its_time",),
    ),
    Mutant(
        "what cannot be stopped is forgotten",
        "A job runs on, and nobody was told.",
        HANDLERS,
        'await self.leave(job, f"{self.provider.name} cannot stop it.", external_id)',
        "await self.mark_stopped(job, external_id, [])",
        "promises",
        (f"{ENDING}::test_what_cannot_be_stopped_is_reported_to_a_person",),
    ),
]
