"""An application that cannot be loaded: the message says where the mistake is, and only a wrong name gets the hint."""

from pathlib import Path

import pytest

from holdfast.errors import AppInvalid
from holdfast.worker.app import FIX, HOW_TO_NAME, load_app

FILES = {
    "load_two.py": "from holdfast import Holdfast\na = Holdfast()\nb = Holdfast()\nagain = b\n",
    "load_calls.py": "import load_divides\n",
    "load_divides.py": "def half():\n    return 1 / 0\n\nhalf()\n",
    "load_unsound.py": "from holdfast import Holdfast\nhf = Holdfast()\n@hf.task(retries=-1)\ndef one(): ...\n",
    "load_typo.py": "x = 1\ndef one(:\n    pass\n",
    "load_needs.py": "import nowhere_at_all\n",
    "load_reads.py": "open('/no/such/file')\n",
}


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        ("load_two.py", ["has 2 Holdfast applications"], "Name one: load_two.py:a or load_two.py:b"),
        ("load_calls.py", ["ZeroDivisionError", "load_calls.py:1\n", "load_divides.py:2\n    return 1 / 0"], FIX),
        ("load_divides", ["ZeroDivisionError", "load_divides.py:4\n    half()"], FIX),
        ("load_unsound.py", ["retries=-1", "load_unsound.py:3"], "Say how often to try again: 0 or more."),
        ("load_typo.py", ["SyntaxError", "load_typo.py:2\n    def one(:"], FIX),
        ("load_needs", ["No module named 'nowhere_at_all'", "load_needs.py:1"], FIX),
        ("load_reads.py", ["FileNotFoundError", "load_reads.py:1"], FIX),
        ("load_nothing:hf", ["No module named 'load_nothing'"], HOW_TO_NAME),
        ("load_nothing.py", ["there is no file"], HOW_TO_NAME),
        ("load_two.py:c", ["c is not there"], "Name the Holdfast(...) of your application."),
    ],
)
def test_a_mistake_in_the_application_is_reported_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: list[str], fix: str
) -> None:
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AppInvalid) as refused:
        load_app(name)
    assert [one for one in message if one not in refused.value.detail] == []
    assert "importlib" not in refused.value.detail
    assert refused.value.fix == fix
