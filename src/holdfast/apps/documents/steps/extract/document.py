"""A document that was read, or why it was not."""

from dataclasses import dataclass

SUPPORTED = "PDF, Word (.docx), HTML, Markdown and plain text"
text_most = 20_000_000


@dataclass(frozen=True)
class Extracted:
    """The text of a document. `pages` are the offsets in it where the pages begin; a text without pages has none."""

    kind: str
    title: str
    text: str
    pages: tuple[int, ...] = ()


class Unreadable(Exception):
    """A file that is not read, with a code for programs and a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def bare(self) -> "Unreadable":
        """The same, without the frames that it was raised in, which hold on to the document."""
        return Unreadable(self.code, self.message)


def unsupported(what: str) -> Unreadable:
    return Unreadable("unsupported", f"It is {what}. What can be read: {SUPPORTED}.")


def binary() -> Unreadable:
    return unsupported("binary, and none of the kinds we know")


def too_long() -> Unreadable:
    return Unreadable("too-long", f"It has more than {text_most:,} characters of text. Cut it into parts.")
