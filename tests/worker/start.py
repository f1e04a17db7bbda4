"""A worker with times of a test's choosing: `python -m tests.worker.start PLAN PROCESSES`, the config as JSON."""

import json
import sys

from holdfast.engine.logs import configure_logs
from holdfast.worker.config import WorkerConfig
from holdfast.worker.supervisor import Serving, run_worker


def say_ready(serving: Serving) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    configure_logs()
    run_worker(WorkerConfig(**json.loads(sys.argv[1])), processes=int(sys.argv[2]), on_ready=say_ready)
