"""What keeps a process from starting, or from reaching its database."""

from holdfast.errors.root import HoldfastError


class SettingInvalid(HoldfastError):
    """A setting cannot be used."""

    exit_code = 2


class AppInvalid(HoldfastError):
    """The application with your tasks cannot be loaded."""

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


class ServerUnreachable(DatabaseUnreachable):
    """The server does not answer."""


class WorkerRefused(ServerUnreachable):
    """The server does not let this worker in. It asks again and again; what runs runs on."""


class TaskBusy(DatabaseError):
    """Somebody else holds this task at this moment."""


class DatabaseTooOld(DatabaseError):
    """This Postgres is too old."""


class DatabaseReadOnly(DatabaseError):
    """This Postgres accepts no writes."""


class DatabaseForbidden(DatabaseError):
    """This database role may not use Holdfast."""


class SchemaMissing(DatabaseError):
    """This database has no Holdfast in it, or an older one."""


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
