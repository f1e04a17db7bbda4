"""A folder: the place for objects that needs no account. Several servers and workers may share it.

Bytes go into `.incoming` first and appear under their key whole, synced to disk, by a rename: a reader sees the
old object, the new one, or none. So a snapshot is a hard link, and free. A link takes its object once: `.used`
remembers those that were, for longer than a link can last. All of it is one filesystem, which knows flock.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, Self, TypeVar

from holdfast.errors import ObjectMissing, ObjectsUnreachable, SettingInvalid, UrlRefused
from holdfast.execution.threads import in_thread
from holdfast.objects import Download, Found, Upload, UploadSpec, check_key, check_link, check_upload, lasting_most
from holdfast.objects.scratch import whole_file
from holdfast.objects.signed_links import ASK_AGAIN, FolderLink, FolderSigner, Method, read_secret

SECRET = ".signing-key"  # noqa: S105 - its name
written_at_once = 1 << 20
left_behind = timedelta(hours=1)  # an upload that is alive writes at least once a minute
remembered = lasting_most + timedelta(days=1)
tidied_every = timedelta(hours=1)
NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Received:
    """What an upload brought."""

    bytes: int
    sha256: str


def on_disk(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The function in a thread. Raises ObjectsUnreachable for an error of the system."""

    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with unreachable():
            return await in_thread(function, *args, **kwargs)

    return run


class Folder:
    """Objects in a folder; `open` before use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.label = f"the folder {self.folder}"
        self._incoming = self.folder / ".incoming"
        self._used = self.folder / ".used"
        self._tidied_at = 0.0

    def open(self) -> Self:
        """Make what is missing, remove what killed servers left. Raises SettingInvalid."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, self._incoming, self._used):
                folder.mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError), open(self.folder / ".gitignore", "x", opener=private) as file:
                file.write("*\n")
            self._signer  # noqa: B018 - its secret is made now, or found to be out of reach
            self._tidy()
        except OSError as error:
            raise SettingInvalid(
                f"Files would be kept in {self.folder}, which cannot be used: {error.strerror}.",
                fix="Name a place where they can be, such as HOLDFAST_OBJECTS=file:///var/lib/holdfast",
            ) from None
        return self

    async def sign_upload(self, upload: UploadSpec, *, now: datetime, lasting: timedelta, server: str) -> Upload:
        """A link that takes this object, once. Raises UploadTooLarge or RequestInvalid."""
        check_upload(upload, lasting)
        if time.monotonic() - self._tidied_at > tidied_every.total_seconds():
            await on_disk(self._tidy)()
        link = FolderLink(id=secrets.token_hex(16), method="PUT", expires_at=now + lasting, **vars(upload))
        return Upload(self._address(server, link), "PUT", {"Content-Type": link.content_type}, link.expires_at)

    async def sign_download(
        self, key: str, *, filename: str, content_type: str, now: datetime, lasting: timedelta, server: str
    ) -> Download:
        """A link that gives this object. Raises RequestInvalid."""
        check_link(key, content_type, lasting)
        link = FolderLink("", "GET", key, content_type, now + lasting, filename=filename)
        return Download(self._address(server, link), link.expires_at)

    def read_link(self, token: str, method: Method) -> FolderLink:
        """The link of this token. Raises UrlRefused."""
        return self._signer.read(token, method)

    async def check_unused(self, link: FolderLink) -> None:
        """Raise UrlRefused if this link has taken its object."""
        if await on_disk(size_of)(self._used / link.id):
            raise already_used(link)

    async def receive(self, link: FolderLink, parts: AsyncIterable[bytes]) -> Received:
        """Keep the bytes that arrive if they are those that were promised; otherwise keep nothing.

        Raises UrlRefused, UploadTooLarge or UploadIncomplete, and whatever `parts` raises.
        """
        received, waiting = 0, bytearray()
        with unreachable(), self._temporary() as path, open(path, "xb", opener=private, buffering=0) as file:  # noqa: ASYNC230
            digest = hashlib.sha256()

            def write(data: bytes) -> None:
                digest.update(data)
                write_all(file, data)

            async for part in parts:
                received += len(part)
                link.check_most(received)
                waiting += part
                if len(waiting) >= written_at_once:
                    await in_thread(write, bytes(waiting))
                    waiting.clear()
            await in_thread(write, bytes(waiting))
            link.check_least(received)
            link.check_sha256(digest.hexdigest())
            await in_thread(os.fsync, file.fileno())
            await in_thread(self._appear_once, path, link)
        return Received(received, digest.hexdigest())

    @on_disk
    def find(self, key: str) -> Found | None:
        size = size_of(self.path(key))
        return None if size is None else Found(key, size)

    @on_disk
    def sha256(self, key: str) -> str:
        """Raises ObjectMissing."""
        with translate_missing(key), self.path(key).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @on_disk
    def copy(self, source: str, target: str) -> None:
        """Raises ObjectMissing."""
        check_key(target)
        with self._temporary() as path:
            with translate_missing(source):
                try:
                    os.link(self.path(source), path)
                except OSError as error:
                    if error.errno not in NO_LINKS:
                        raise
                    write_copy(self.path(source), path)
            self._appear(path, target)

    @on_disk
    def fetch(self, key: str, path: Path) -> None:
        """Raises ObjectMissing. The file is a copy of its own: writing into it does not change the object."""
        with translate_missing(key), self.path(key).open("rb") as source, whole_file(path) as target:
            shutil.copyfileobj(source, target, written_at_once)

    @on_disk
    def put(self, key: str, path: Path, *, content_type: str) -> Found:
        """The type is not kept: each download link names it."""
        check_key(key)
        with self._temporary() as temporary:
            size = write_copy(path, temporary)
            self._appear(temporary, key)
        return Found(key, size)

    @on_disk
    def delete(self, prefix: str) -> int:
        top, count = self.path(prefix), 0
        for folder, folders, files in self._walk(top, topdown=False):
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    Path(folder, name).unlink()
                    count += 1
            for name in folders:
                with contextlib.suppress(OSError):  # not empty any more
                    Path(folder, name).rmdir()
        with contextlib.suppress(OSError):
            while top != self.folder:
                top.rmdir()
                top = top.parent
        return count

    @on_disk
    def keys(self, prefix: str) -> list[Found]:
        found = []
        for folder, _, files in self._walk(self.path(prefix)):
            for name in files:
                path = Path(folder, name)
                size = size_of(path)
                if size is not None:
                    found.append(Found(path.relative_to(self.folder).as_posix(), size))
        return sorted(found, key=lambda one: one.key)

    def _walk(self, top: Path, *, topdown: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
        """Everything below; nothing if that is not there. Raises OSError, also if the whole folder has gone."""
        (self.folder / SECRET).stat()  # a share that is not mounted must not pass for an empty one

        def refuse(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                raise error

        return os.walk(top, topdown=topdown, onerror=refuse)

    def path(self, key: str) -> Path:
        """Where the object is. Raises RequestInvalid."""
        return self.folder / check_key(key)

    @functools.cached_property
    def _signer(self) -> FolderSigner:
        return FolderSigner(read_secret(self.folder / SECRET))

    def _address(self, server: str, link: FolderLink) -> str:
        return f"{server.rstrip('/')}/objects/{self._signer.sign(link)}"

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[Path]:
        """A path of this call alone; what is still there in the end is removed."""
        path = self._incoming / secrets.token_hex(16)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _appear_once(self, path: Path, link: FolderLink) -> None:
        """The link counts as used only after the object is there: a crash in between lets the client send it again."""
        with open(self._used / link.id, "ab", opener=private) as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            if os.fstat(mark.fileno()).st_size:
                raise already_used(link)
            self._appear(path, link.key)
            mark.write(b"used\n")
            mark.flush()
            os.fsync(mark.fileno())

    def _appear(self, path: Path, key: str) -> None:
        target = self.path(key)
        while True:
            self._make_folders(target.parent)
            try:
                path.replace(target)
                break
            except FileNotFoundError:  # a delete took the empty folder away meanwhile
                if not path.exists():
                    raise
        sync(target.parent)

    def _make_folders(self, folder: Path) -> None:
        if folder == self.folder or folder.is_dir():
            return
        self._make_folders(folder.parent)
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            folder.mkdir(mode=0o700)
            sync(folder.parent)

    def _tidy(self) -> None:
        self._tidied_at = time.monotonic()
        now = time.time()
        for folder, age in ((self._incoming, left_behind), (self._used, remembered)):
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if now - path.stat().st_ctime > age.total_seconds():  # a fresh link to an old file is fresh
                        path.unlink()


def already_used(link: FolderLink) -> UrlRefused:
    return UrlRefused("It was used already: its file is here.", fix=ASK_AGAIN[link.method])


def private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_all(file: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def write_copy(source: Path, target: Path) -> int:
    """A copy that is on the disk; its size."""
    with source.open("rb") as reading, open(target, "xb", opener=private) as writing:
        shutil.copyfileobj(reading, writing, written_at_once)
        writing.flush()
        os.fsync(writing.fileno())
        return writing.tell()


def sync(folder: Path) -> None:
    """Have the names in this folder on the disk."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def translate_missing(key: str) -> Iterator[None]:
    """No such file means no such object."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ObjectMissing(f"{key} is not there.") from None


@contextlib.contextmanager
def unreachable() -> Iterator[None]:
    """An error of the system becomes ObjectsUnreachable."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ConnectionError | TimeoutError):
            raise  # of the client, not of the folder
        raise ObjectsUnreachable(
            f"{error.strerror or error}: {error.filename or 'the folder'}.",
            fix="See that the folder is there, is yours and has room.",
        ) from error
