"""The fixture `holdfast` is the real engine on a database of its own."""

from app import count_words, greet


def test_a_task_is_a_plain_function_too():
    assert greet("Ada") == "Hello, Ada!"


def test_a_crash_costs_an_attempt_and_nothing_else(holdfast):
    run = holdfast.run(count_words, "to be or not to be", crash_after="split")
    assert run.result == {"be": 2, "not": 1, "or": 1, "to": 2}
    assert run.attempts == 2
