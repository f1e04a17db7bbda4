"""Every error Holdfast raises.

    HoldfastError
    ├── SettingInvalid
    ├── AppInvalid
    ├── PortsTaken
    ├── DatabaseError
    │   ├── DatabaseUnreachable
    │   │   └── ServerUnreachable
    │   │       └── WorkerRefused
    │   ├── TaskBusy
    │   ├── DatabaseTooOld
    │   ├── DatabaseReadOnly
    │   ├── DatabaseForbidden
    │   ├── SchemaMissing
    │   └── EmbeddedError
    │       ├── BinariesMissing
    │       ├── FolderUnusable
    │       └── ServerFailed
    ├── MigrationError
    │   ├── MigrationFolderInvalid
    │   ├── MigrationChanged
    │   ├── MigrationFailed
    │   ├── MigrationBusy
    │   └── MigrationForbidden
    ├── DeclarationError
    │   ├── DeclarationInvalid
    │   └── DeclarationConflict
    ├── RequestInvalid
    │   ├── LifecycleUnknown
    │   ├── QueueUnknown
    │   ├── VerbUnknown
    │   ├── StateUnknown
    │   ├── StepUnknown
    │   ├── StepInvalid
    │   ├── BudgetUnknown
    │   ├── PayloadInvalid
    │   ├── PayloadTooLarge
    │   ├── KeyConflict
    │   ├── KeyUnknown
    │   ├── BodyTooLarge
    │   ├── DependencyInvalid
    │   └── CursorGone
    ├── GraphCycle
    ├── GraphUnknown
    ├── ScheduleUnknown
    ├── BillingError
    │   ├── CreditsInsufficient
    │   └── WalletNotFound
    ├── QuestionError
    │   ├── AlreadyAnswered
    │   ├── QuestionClosed
    │   └── QuestionUnknown
    ├── WebhookUnknown
    ├── AccessError
    │   ├── KeyRefused
    │   ├── RoleMissing
    │   ├── HostRefused
    │   └── OriginRefused
    ├── DatasetError
    │   ├── DatasetNotFound
    │   ├── GenerationIncomplete
    │   └── OutputRefused
    ├── ObjectsError
    │   ├── ObjectsUnreachable
    │   ├── ObjectMissing
    │   ├── UrlRefused
    │   ├── UploadTooLarge
    │   ├── UploadTypeWrong
    │   └── UploadIncomplete
    ├── TaskError
    │   ├── TaskNotFound
    │   ├── TaskExpired
    │   ├── TaskFailed
    │   ├── TaskCancelled
    │   ├── TaskEnded
    │   ├── NotClaimable
    │   │   └── AlreadyLeased
    │   ├── FilesMissing
    │   ├── MoveRefused
    │   └── LeaseLost
    │       └── StaleAttempt
    └── Failure
        ├── RateLimited
        ├── Transient
        ├── SchemaInvalid
        └── Fatal
            └── Unanswered

A class's docstring is the start of its message: it says what is wrong. What is particular to this case, and what to
do about it, follows. Beside its base each class names what differs from it: the exit code of the command line, the
status and the code of the HTTP answer, and the SQLSTATE. The code is the name of the class with dashes, unless a
contract has another. Those with an `sqlstate` are decided in Postgres: its functions raise that code, with the detail
as message and the fix as hint, so that every client gets the same error, with Python or without.

A `Failure` is raised by you: in a task, to say what kind of failure it is, and so what follows.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from inspect import cleandoc
from typing import Any, ClassVar, Literal


class HoldfastError(Exception):
    """Something in Holdfast went wrong."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    http_code: ClassVar[str] = "holdfast-error"
    sqlstate: ClassVar[str | None] = None

    def __init_subclass__(cls, **differs: Any) -> None:
        for name, value in differs.items():
            setattr(cls, name, value)
        if "http_code" not in vars(cls):
            cls.http_code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        super().__init_subclass__()

    def __init__(self, detail: str = "", *, fix: str = "") -> None:
        self.title = " ".join(cleandoc(type(self).__doc__ or "").split())
        self.detail = detail
        self.fix = fix
        self.more: dict[str, object] = {}  # further fields of the HTTP answer
        super().__init__("\n".join(part for part in (self.title, detail, fix) if part))


class SettingInvalid(HoldfastError, exit_code=2):
    """A setting cannot be used."""


class AppInvalid(HoldfastError, exit_code=2):
    """The application with your tasks cannot be loaded."""


class PortsTaken(HoldfastError, exit_code=5):
    """No free port was found to serve on."""


class DatabaseError(HoldfastError, exit_code=5, http_status=503):
    """The database cannot be used."""


class DatabaseUnreachable(DatabaseError):
    """The database does not answer."""


class ServerUnreachable(DatabaseUnreachable):
    """The server does not answer."""


class WorkerRefused(ServerUnreachable):
    """The server does not let this worker in. It asks again until it may; tasks that run go on."""


class TaskBusy(DatabaseError):
    """Another transaction holds this task at this moment."""


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


class MigrationError(HoldfastError, exit_code=5, http_status=503):
    """The database's schema could not be brought up to date."""


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


class DeclarationError(HoldfastError, exit_code=2, http_status=422):
    """A lifecycle cannot be declared."""


class DeclarationInvalid(DeclarationError, sqlstate="TK021"):
    """A lifecycle is not sound."""


class DeclarationConflict(DeclarationError, http_status=409, sqlstate="TK022"):
    """A lifecycle contradicts the one that tasks are already using."""


class RequestInvalid(HoldfastError, exit_code=2, http_status=422, sqlstate="TK010"):
    """The request cannot be carried out as it is written."""


class LifecycleUnknown(RequestInvalid, exit_code=3, http_status=404, sqlstate="TK011"):
    """No lifecycle has this name."""


class QueueUnknown(RequestInvalid, sqlstate="TK012"):
    """No queue has this name."""


class VerbUnknown(RequestInvalid, sqlstate="TK013"):
    """The lifecycle has no such verb."""


class StateUnknown(RequestInvalid, sqlstate="TK014"):
    """The lifecycle has no such state."""


class StepUnknown(RequestInvalid, sqlstate="TK015"):
    """The task has not completed a step of this name."""


class StepInvalid(RequestInvalid):
    """A step cannot be run like this."""


class BudgetUnknown(RequestInvalid, sqlstate="TK016"):
    """No rate budget has this name."""


class PayloadInvalid(RequestInvalid, sqlstate="TK017"):
    """This value cannot be kept as JSON."""

    @classmethod
    def of(cls, error: Exception) -> "PayloadInvalid":
        """What json.dumps has raised."""
        if isinstance(error, RecursionError):
            return cls("It is nested too deeply.", fix="Flatten it, or put it where files live.")
        return cls(f"{error}.", fix="Pass strings, numbers, booleans, None, and lists and dictionaries of these.")


class PayloadTooLarge(RequestInvalid, http_status=413, sqlstate="TK018"):
    """This value is too large to be kept with a task."""


class KeyConflict(RequestInvalid, sqlstate="TK019"):
    """This idempotency key was used before, for something else."""


class KeyUnknown(RequestInvalid, exit_code=3, http_status=404, sqlstate="TK023"):
    """No API key has this id."""


class BodyTooLarge(RequestInvalid, http_status=413):
    """The body of the request is too large."""


class DependencyInvalid(RequestInvalid, http_status=409, sqlstate="TK020"):
    """A task cannot wait for that."""


class CursorGone(RequestInvalid, http_status=410, sqlstate="TK024"):
    """From this cursor on, the feed cannot be complete."""


class GraphCycle(HoldfastError, exit_code=2, http_status=409, http_code="cycle", sqlstate="TK045"):
    """Tasks that wait for each other would wait for ever."""


class GraphUnknown(HoldfastError, exit_code=3, http_status=404, sqlstate="TK046"):
    """There is no such graph, or no such run of one."""


class ScheduleUnknown(HoldfastError, exit_code=3, http_status=404, sqlstate="TK074"):
    """There is no such schedule."""


class BillingError(HoldfastError, exit_code=4, http_status=402):
    """The task cannot be paid for."""


class CreditsInsufficient(BillingError, http_code="BILLING_INSUFFICIENT_CREDITS", sqlstate="TK025"):
    """Insufficient credits."""


class WalletNotFound(BillingError, http_code="BILLING_WALLET_NOT_FOUND", sqlstate="TK026"):
    """Wallet not found."""


class QuestionError(HoldfastError, exit_code=4, http_status=409):
    """The question cannot be answered."""


class AlreadyAnswered(QuestionError, sqlstate="TK070"):
    """The question was answered before, with another answer."""


class QuestionClosed(QuestionError, http_status=410, sqlstate="TK071"):
    """The question is closed: no task waits for an answer."""


class QuestionUnknown(QuestionError, exit_code=3, http_status=404, sqlstate="TK072"):
    """There is no such question."""


class WebhookUnknown(HoldfastError, exit_code=3, http_status=404, sqlstate="TK073"):
    """There is no such webhook, or no such delivery."""


class AccessError(HoldfastError, exit_code=2, http_status=403):
    """The server does not let this request in."""


class KeyRefused(AccessError, http_status=401):
    """No valid API key came with the request."""


class RoleMissing(AccessError):
    """This API key may not do that."""


class HostRefused(AccessError):
    """The server is not known by this host name."""


class OriginRefused(AccessError):
    """A page of another site may not call the server."""


class DatasetError(HoldfastError, exit_code=4, http_status=409):
    """The dataset does not allow that now."""


class DatasetNotFound(DatasetError, exit_code=3, http_status=404, sqlstate="TK040"):
    """There is no such dataset."""


class GenerationIncomplete(DatasetError, http_code="not-complete", sqlstate="TK041"):
    """This generation cannot be current."""


class OutputRefused(DatasetError, exit_code=2, http_status=422, sqlstate="TK042"):
    """This output cannot be published."""


class ObjectsError(HoldfastError, exit_code=2, http_status=422):
    """A file cannot be brought or fetched."""


class ObjectsUnreachable(ObjectsError, exit_code=5, http_status=503):
    """The place where files are kept cannot be used."""


class ObjectMissing(ObjectsError, exit_code=3, http_status=404):
    """There is no such file."""


class UrlRefused(ObjectsError, http_status=403):
    """This link is not valid, or not any more."""


class UploadTooLarge(ObjectsError, http_status=413):
    """The file is larger than was agreed."""


class UploadTypeWrong(ObjectsError, http_status=415):
    """The file is of another type than was agreed."""


class UploadIncomplete(ObjectsError):
    """The file did not arrive as it was promised."""


class TaskError(HoldfastError, exit_code=4, http_status=409):
    """The task does not allow that now."""


class TaskNotFound(TaskError, exit_code=3, http_status=404, sqlstate="TK003"):
    """There is no such task."""


class TaskExpired(TaskError, http_status=410, sqlstate="TK004"):
    """The time limit of this state has passed."""


class TaskFailed(TaskError, exit_code=1):
    """The task has failed for good."""

    category: str | None = None

    code: str | None = None

    step: str | None = None


class TaskCancelled(TaskError, exit_code=7):
    """The task was cancelled."""


class TaskEnded(TaskError, http_code="terminal", sqlstate="TK008"):
    """The task has ended; there is nothing left to do."""


class NotClaimable(TaskError, sqlstate="TK006"):
    """The task does not wait for a worker now."""


class AlreadyLeased(NotClaimable, sqlstate="TK007"):
    """Another worker holds this task."""


class FilesMissing(TaskError):
    """Required files not found in storage."""

    def __init__(self, detail: str = "", *, fix: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(detail, fix=fix)
        self.more = {"missing": list(missing)}


class MoveRefused(TaskError, sqlstate="TK002"):
    """The lifecycle does not allow this move."""


class LeaseLost(TaskError, sqlstate="TK001"):
    """This lease is no longer held; drop the result."""


class StaleAttempt(LeaseLost, sqlstate="TK009"):
    """This attempt is over; drop the result."""


class Failure(HoldfastError):
    """A task cannot go on."""

    category: ClassVar[Literal["RateLimited", "Transient", "SchemaInvalid", "Fatal"] | None] = None

    def __init__(
        self, message: str = "", *, code: str | None = None, retry_after: timedelta | str | float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message or self.title
        self.code = code
        self.retry_after = retry_after  # as it was given: it is parsed when the task is settled


class RateLimited(Failure):
    """The service asks to slow down; the task waits, and no attempt is counted."""

    category = "RateLimited"

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        retry_after: timedelta | str | float | None = None,
        retry_at: datetime | None = None,
        budget: str | None = None,
    ) -> None:
        """`budget` names a limit that several tasks share: none of them calls the provider until then."""
        super().__init__(message, code=code, retry_after=retry_after)
        self.retry_at = retry_at
        self.budget = budget


class Transient(Failure):
    """It may work the next time; the task is tried again, a limited number of times."""

    category = "Transient"


class SchemaInvalid(Failure):
    """The input is wrong and will stay wrong; the task goes to the inbox."""

    category = "SchemaInvalid"


class Fatal(Failure):
    """Trying again would not help; the task goes to the inbox."""

    category = "Fatal"


class Unanswered(Fatal):
    """No answer came in time."""
