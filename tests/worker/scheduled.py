"""An application that the clock starts once a year."""

from holdfast import Holdfast
from tests.worker.app import note

hf = Holdfast()


@hf.task(queue="yearly")
def celebrate(at: str) -> None:
    note(at)


hf.cron("0 0 1 1 *", celebrate, name="new-year", at="at", timezone="Asia/Tokyo")
