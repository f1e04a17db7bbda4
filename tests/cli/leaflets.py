"""The press, and beside it a pipeline whose two stages write files of the same name. Only workers load it."""

from holdfast.pipeline import output
from tests.lifecycles.pipeline.app import hf

leaflet = hf.pipeline("leaflet", title="Two sides of one sheet")


@leaflet.stage
def front(text: str) -> str:
    output("page.txt", f"front: {text}")
    output("notes/colours.txt", "two")
    return text


@leaflet.stage
def back(front: str) -> None:
    output("page.txt", f"back: {front}")
