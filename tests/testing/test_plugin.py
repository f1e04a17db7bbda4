"""The plugin, as pytest sees it in somebody else's project."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.deep
def test_the_examples_of_the_documentation_run(pytester: pytest.Pytester) -> None:
    pages = "".join((DOCS / page).read_text() for page in ("testing.md", "concepts/steps.md"))
    files = dict(re.findall(r'```python title="(\w+\.py)"\n(.*?)```', pages, flags=re.DOTALL))
    assert files.keys() == {"app.py", "test_app.py", "invoices.py", "test_invoices.py"}
    for name, text in files.items():
        (pytester.path / name).write_text(text)
    pytester.makeini("[pytest]")  # the temporary folder may lie in a clone, whose settings are its own
    others = [option for name in ("asyncio", "schemathesis", "hypothesispytest") for option in ("-p", f"no:{name}")]
    ran = pytester.runpytest_subprocess("-n", "2", "-W", "error", *others, timeout=50)
    ran.assert_outcomes(passed=3)


def test_a_run_that_does_not_use_it_imports_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import pytest; also = set(sys.modules); import holdfast.testing.plugin;"
        "print(*sorted(set(sys.modules) - also - set(sys.stdlib_module_names)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["holdfast", "holdfast.distribution", "holdfast.testing", "holdfast.testing.plugin"]
