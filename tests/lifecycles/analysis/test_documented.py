"""The tool of the documentation runs as it is printed."""

import re
from pathlib import Path
from typing import Any

from holdfast.sdk.client import Holdfast
from tests.lifecycles.analysis.desk import Desk

PAGE = Path(__file__).parents[3] / "docs" / "lifecycles" / "analysis.md"


async def test_agents_of_your_own_run_as_the_page_says(desk: Desk) -> None:
    (text,) = re.findall(r"## Agents of your own\n\n```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "mine"}
    exec(compile(text.replace('"count"', '"mine"'), "mine.py", "exec"), names)  # noqa: S102
    hf = names["hf"]
    assert isinstance(hf, Holdfast)
    await hf.declare(desk.store)
    task = await desk.create(["count-lines"], tool="mine")
    await desk.put((await desk.links(task))["primary"])
    await desk.process(task)
    desk.work()
    status = await desk.read(task)
    assert (status["status"], status["credits"]["charged"]) == ("COMPLETED", 2)
    (link,) = (await desk.http.get(f"/tasks/{task}/downloads")).json()["downloads"]
    assert (await desk.http.get(link["url"])).text == "3\n"
