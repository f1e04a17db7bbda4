"""A scratch folder is private while it is used and gone afterwards, also after a kill."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.objects.scratch import scratch

HOLDER = """
import sys
from pathlib import Path
from holdfast.objects.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "big").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_is_private_and_goes_with_the_block(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "deep").mkdir()
        (folder / "deep/file").write_text("x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), scratch(tmp_path) as folder:
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_and_what_is_used_stays(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        theirs = Path(holder.stdout.readline().strip())
        with scratch(tmp_path) as mine, scratch(tmp_path):
            assert (theirs / "big").exists()
            assert mine.exists()
        holder.kill()
        holder.wait(30)
        assert theirs.exists()
        with scratch(tmp_path) as mine:
            assert list(tmp_path.iterdir()) == [mine]


def test_what_others_put_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "holdfast-scratch-link").symlink_to(elsewhere)
    (tmp_path / "holdfast-scratch-file").write_text("x")
    with scratch(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {
        "other", "elsewhere", "holdfast-scratch-link", "holdfast-scratch-file"
    }  # fmt: skip


def test_many_at_once_do_not_take_each_other_for_dead(tmp_path: Path) -> None:
    def use(number: int) -> bool:
        with scratch(tmp_path) as folder:
            (folder / "mine").write_text(str(number))
            return (folder / "mine").read_text() == str(number)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(use, range(300)))
    assert list(tmp_path.iterdir()) == []
