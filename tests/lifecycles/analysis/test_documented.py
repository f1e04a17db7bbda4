"""The tool of the documentation runs as it is printed."""

import re
from pathlib import Path
from typing import Any

from holdfast.sdk.client import Holdfast
from tests.lifecycles.analysis.harness import Harness

PAGE = Path(__file__).parents[3] / "docs" / "lifecycles" / "analysis.md"


async def test_agents_of_your_own_run_as_the_page_says(harness: Harness) -> None:
    (text,) = re.findall(r"## Agents of your own\n\n```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "mine"}
    exec(compile(text.replace('"count"', '"mine"'), "mine.py", "exec"), names)  # noqa: S102
    hf = names["hf"]
    assert isinstance(hf, Holdfast)
    await hf.declare(harness.store)
    task = await harness.create(["count-lines"], tool="mine")
    await harness.put((await harness.links(task))["primary"])
    await harness.process(task)
    harness.work()
    status = await harness.read(task)
    assert (status["status"], status["credits"]["charged"]) == ("COMPLETED", 2)
    (link,) = (await harness.http.get(f"/tasks/{task}/downloads")).json()["downloads"]
    assert (await harness.http.get(link["url"])).text == "3\n"
