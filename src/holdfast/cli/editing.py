"""Changing a text in the editor of one's choice: $VISUAL, $EDITOR, or vi."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from holdfast.errors import RequestInvalid


def edit(text: str, suffix: str) -> str:
    """The text as it was saved. Raises RequestInvalid if there is no such editor, or it fails."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"payload{suffix}"
        file.write_text(text)
        try:
            code = subprocess.run([*command, file], check=False).returncode
        except OSError as error:
            raise RequestInvalid(f"{command[0]}: {error.strerror}.", fix="Set EDITOR to one that is there.") from None
        if code:
            raise RequestInvalid(f"{command[0]} ended with {code}; nothing was done.", fix="Try again.")
        return file.read_text()
