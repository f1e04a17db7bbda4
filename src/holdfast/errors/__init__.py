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
do about it, follows. Each class also knows the exit code of the command line, and the status and the code of the HTTP
answer; the code is the name of the class with dashes, unless a contract has another. Those with an `sqlstate` are
decided in Postgres: its functions raise that code, with the detail as message and the fix as hint, so that every client
gets the same error, with Python or without.

A `Failure` is raised by you: in a task, to say what kind of failure it is, and so what follows.
"""

from collections.abc import Sequence

from holdfast.errors.billing import BillingError as BillingError
from holdfast.errors.billing import CreditsInsufficient as CreditsInsufficient
from holdfast.errors.billing import WalletNotFound as WalletNotFound
from holdfast.errors.datasets import DatasetError as DatasetError
from holdfast.errors.datasets import DatasetNotFound as DatasetNotFound
from holdfast.errors.datasets import GenerationIncomplete as GenerationIncomplete
from holdfast.errors.datasets import OutputRefused as OutputRefused
from holdfast.errors.failures import Failure as Failure
from holdfast.errors.failures import Fatal as Fatal
from holdfast.errors.failures import RateLimited as RateLimited
from holdfast.errors.failures import SchemaInvalid as SchemaInvalid
from holdfast.errors.failures import Transient as Transient
from holdfast.errors.failures import Unanswered as Unanswered
from holdfast.errors.files import ObjectMissing as ObjectMissing
from holdfast.errors.files import ObjectsError as ObjectsError
from holdfast.errors.files import ObjectsUnreachable as ObjectsUnreachable
from holdfast.errors.files import UploadIncomplete as UploadIncomplete
from holdfast.errors.files import UploadTooLarge as UploadTooLarge
from holdfast.errors.files import UploadTypeWrong as UploadTypeWrong
from holdfast.errors.files import UrlRefused as UrlRefused
from holdfast.errors.graphs import GraphCycle as GraphCycle
from holdfast.errors.graphs import GraphUnknown as GraphUnknown
from holdfast.errors.graphs import ScheduleUnknown as ScheduleUnknown
from holdfast.errors.outside import AlreadyAnswered as AlreadyAnswered
from holdfast.errors.outside import QuestionClosed as QuestionClosed
from holdfast.errors.outside import QuestionError as QuestionError
from holdfast.errors.outside import QuestionUnknown as QuestionUnknown
from holdfast.errors.outside import WebhookUnknown as WebhookUnknown
from holdfast.errors.root import HoldfastError as HoldfastError
from holdfast.errors.starting import AppInvalid as AppInvalid
from holdfast.errors.starting import BinariesMissing as BinariesMissing
from holdfast.errors.starting import DatabaseError as DatabaseError
from holdfast.errors.starting import DatabaseForbidden as DatabaseForbidden
from holdfast.errors.starting import DatabaseReadOnly as DatabaseReadOnly
from holdfast.errors.starting import DatabaseTooOld as DatabaseTooOld
from holdfast.errors.starting import DatabaseUnreachable as DatabaseUnreachable
from holdfast.errors.starting import EmbeddedError as EmbeddedError
from holdfast.errors.starting import FolderUnusable as FolderUnusable
from holdfast.errors.starting import MigrationBusy as MigrationBusy
from holdfast.errors.starting import MigrationChanged as MigrationChanged
from holdfast.errors.starting import MigrationError as MigrationError
from holdfast.errors.starting import MigrationFailed as MigrationFailed
from holdfast.errors.starting import MigrationFolderInvalid as MigrationFolderInvalid
from holdfast.errors.starting import MigrationForbidden as MigrationForbidden
from holdfast.errors.starting import PortsTaken as PortsTaken
from holdfast.errors.starting import SchemaMissing as SchemaMissing
from holdfast.errors.starting import ServerFailed as ServerFailed
from holdfast.errors.starting import ServerUnreachable as ServerUnreachable
from holdfast.errors.starting import SettingInvalid as SettingInvalid
from holdfast.errors.starting import TaskBusy as TaskBusy
from holdfast.errors.starting import WorkerRefused as WorkerRefused


class DeclarationError(HoldfastError):
    """A lifecycle cannot be declared."""

    exit_code = 2
    http_status = 422


class DeclarationInvalid(DeclarationError):
    """A lifecycle is not sound."""

    sqlstate = "TK021"


class DeclarationConflict(DeclarationError):
    """A lifecycle contradicts the one that tasks are already using."""

    http_status = 409
    sqlstate = "TK022"


class RequestInvalid(HoldfastError):
    """The request cannot be carried out as it is written."""

    exit_code = 2
    http_status = 422
    sqlstate = "TK010"


class LifecycleUnknown(RequestInvalid):
    """No lifecycle has this name."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK011"


class QueueUnknown(RequestInvalid):
    """No queue has this name."""

    sqlstate = "TK012"


class VerbUnknown(RequestInvalid):
    """The lifecycle has no such verb."""

    sqlstate = "TK013"


class StateUnknown(RequestInvalid):
    """The lifecycle has no such state."""

    sqlstate = "TK014"


class StepUnknown(RequestInvalid):
    """The task has not completed a step of this name."""

    sqlstate = "TK015"


class StepInvalid(RequestInvalid):
    """A step cannot be run like this."""


class BudgetUnknown(RequestInvalid):
    """No rate budget has this name."""

    sqlstate = "TK016"


class PayloadInvalid(RequestInvalid):
    """This value cannot be kept as JSON."""

    sqlstate = "TK017"


class PayloadTooLarge(RequestInvalid):
    """This value is too large to be kept with a task."""

    http_status = 413
    sqlstate = "TK018"


class KeyConflict(RequestInvalid):
    """This idempotency key was used before, for something else."""

    sqlstate = "TK019"


class DependencyInvalid(RequestInvalid):
    """A task cannot wait for that."""

    http_status = 409
    sqlstate = "TK020"


class CursorGone(RequestInvalid):
    """From this cursor on, the feed cannot be complete."""

    http_status = 410
    sqlstate = "TK024"


class KeyUnknown(RequestInvalid):
    """No API key has this id."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK023"


class BodyTooLarge(RequestInvalid):
    """The body of the request is too large."""

    http_status = 413


class AccessError(HoldfastError):
    """The server does not let this request in."""

    exit_code = 2
    http_status = 403


class KeyRefused(AccessError):
    """No valid API key came with the request."""

    http_status = 401


class RoleMissing(AccessError):
    """This API key may not do that."""


class HostRefused(AccessError):
    """The server does not go by this host name."""


class OriginRefused(AccessError):
    """A page of another site may not call the server."""


class TaskError(HoldfastError):
    """The task does not allow that now."""

    exit_code = 4
    http_status = 409


class TaskNotFound(TaskError):
    """There is no such task."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK003"


class TaskExpired(TaskError):
    """The time limit of this state has passed."""

    http_status = 410
    sqlstate = "TK004"


class FilesMissing(TaskError):
    """Required files not found in storage."""

    def __init__(self, detail: str = "", *, fix: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(detail, fix=fix)
        self.more = {"missing": list(missing)}


class TaskFailed(TaskError):
    """The task has failed for good."""

    exit_code = 1
    category: str | None = None
    code: str | None = None
    step: str | None = None


class TaskCancelled(TaskError):
    """The task was cancelled."""

    exit_code = 7


class TaskEnded(TaskError):
    """The task has ended; there is nothing left to do."""

    sqlstate = "TK008"
    http_code = "terminal"


class NotClaimable(TaskError):
    """The task does not wait for a worker now."""

    sqlstate = "TK006"


class AlreadyLeased(NotClaimable):
    """Another worker holds this task."""

    sqlstate = "TK007"


class MoveRefused(TaskError):
    """The lifecycle does not allow this move."""

    sqlstate = "TK002"


class LeaseLost(TaskError):
    """This lease is no longer held; drop the result."""

    sqlstate = "TK001"


class StaleAttempt(LeaseLost):
    """This attempt is over; drop the result."""

    sqlstate = "TK009"
