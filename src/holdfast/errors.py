"""Every error Holdfast raises.

    HoldfastError
    ├── SettingInvalid
    ├── PortsTaken
    ├── DatabaseError
    │   ├── DatabaseUnreachable
    │   ├── DatabaseTooOld
    │   ├── DatabaseReadOnly
    │   └── EmbeddedError
    │       ├── BinariesMissing
    │       ├── FolderUnusable
    │       └── ServerFailed
    └── MigrationError
        ├── MigrationFolderInvalid
        ├── MigrationChanged
        ├── MigrationFailed
        ├── MigrationBusy
        └── MigrationForbidden

A class's docstring is the start of its message: it says what is wrong. What is particular to this case, and what to
do about it, follows. Each class also knows the exit code of the command line and the status of the HTTP answer.
"""

from inspect import cleandoc
from typing import ClassVar


class HoldfastError(Exception):
    """Something in Holdfast went wrong."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, detail: str = "", *, fix: str = "") -> None:
        self.title = " ".join(cleandoc(type(self).__doc__ or "").split())
        self.detail = detail
        self.fix = fix
        super().__init__("\n".join(part for part in (self.title, detail, fix) if part))


class SettingInvalid(HoldfastError):
    """A setting cannot be used."""

    exit_code = 2


class PortsTaken(HoldfastError):
    """No free port was found to serve on."""

    exit_code = 5


class DatabaseError(HoldfastError):
    """The database cannot be used."""

    exit_code = 5
    http_status = 503


class DatabaseUnreachable(DatabaseError):
    """The database does not answer."""


class DatabaseTooOld(DatabaseError):
    """This Postgres is too old."""


class DatabaseReadOnly(DatabaseError):
    """This Postgres accepts no writes."""


class EmbeddedError(DatabaseError):
    """The embedded Postgres cannot be used."""


class BinariesMissing(EmbeddedError):
    """No Postgres binaries were found for the embedded server."""


class FolderUnusable(EmbeddedError):
    """The folder of the embedded Postgres cannot be used."""


class ServerFailed(EmbeddedError):
    """The embedded Postgres did not start."""


class MigrationError(HoldfastError):
    """The database's schema could not be brought up to date."""

    exit_code = 5
    http_status = 503


class MigrationFolderInvalid(MigrationError):
    """The numbered migration files do not form a sequence."""


class MigrationChanged(MigrationError):
    """A migration file was edited after it had been applied."""


class MigrationFailed(MigrationError):
    """A migration failed."""


class MigrationBusy(MigrationError):
    """The schema stayed locked by somebody else for too long."""


class MigrationForbidden(MigrationError):
    """This database role may not change the schema."""
