"""A worker with times of a test's choosing: `python -m tests.worker.start PLAN PROCESSES`, the plan as JSON."""

import sys

from holdfast.kernel.logs import configure_logs
from holdfast.worker.keeper import Serving, keep
from holdfast.worker.plan import Plan


def say_ready(serving: Serving) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    configure_logs()
    keep(Plan.load(sys.argv[1]), processes=int(sys.argv[2]), on_ready=say_ready)
