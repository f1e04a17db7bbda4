"""Reading: the file is handed to who knows its kind. A parser is imported when it is first needed."""

import errno
from importlib import import_module
from pathlib import Path, PurePath

from holdfast.apps.documents.steps.extract.cleaning import one_line
from holdfast.apps.documents.steps.extract.document import Extracted, Unreadable, text_most, too_long
from holdfast.apps.documents.steps.extract.kinds import kind_of

READERS = {
    "pdf": ("pdf", "read"),
    "docx": ("word", "read"),
    "html": ("webpage", "read"),
    "markdown": ("plain", "read_markdown"),
    "text": ("plain", "read_text"),
}


def read(path: Path, name: str, content_type: str | None) -> Extracted:
    """The text of the file. Raises Unreadable, OSError, MemoryError, or ModuleNotFoundError if there is no parser."""
    kind = kind_of(path, name, content_type)
    module, function = READERS[kind]
    reader = getattr(import_module(f"holdfast.apps.documents.steps.extract.{module}"), function)
    try:
        title, text, pages = reader(path, content_type)
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # parsers fail in many ways on a damaged file
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # as to seek before the start is
            raise
        raise Unreadable("corrupt", f"It is damaged and cannot be read as {kind}: {error_of(error)}.") from error
    if len(text) > text_most:
        raise too_long()
    if not text.strip():
        raise Unreadable("empty", "There is no text in it.")
    return Extracted(kind, one_line(title) or one_line(PurePath(name).stem) or kind, text, pages)


def error_of(error: Exception) -> str:
    said = one_line(str(error)).rstrip(".")
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
