"""Tasks that publish, for real workers."""

from holdfast import Holdfast, output

hf = Holdfast()


@hf.task
def collect(number: int) -> int:
    output("prices", [{"n": number}], mode="append")
    return number


@hf.task
def plain(number: int) -> int:
    return number


@hf.task
def refused() -> None:
    output("prices", [{"n": 1}], key="same")
    output("prices", "object:users/bob/ingest/secret", key="theirs")


@hf.task
def columns(kind: str) -> None:
    class Table:
        uri = f"s3://bucket/{kind}"
        schema = (("day", kind),)

    output("tables", Table(), key=kind)
