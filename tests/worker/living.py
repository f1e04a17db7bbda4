"""Databases on which time passes, with workers on them and a server before them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.objects import open_objects
from holdfast.settings import Settings
from holdfast.testing import Database
from tests.http.serving import serving
from tests.worker.crew import Crew


@contextlib.contextmanager
def staffed(database: Database, home: Path, app: str, *gates: str, **environment: str) -> Iterator[str]:
    """The address of a server on this database that has a worker. Its files are in `home`; these gates are open."""
    with contextlib.closing(Crew(database.url, home)) as crew:
        crew.environment |= environment
        for gate in gates:
            crew.open(gate)
        crew.start(app=app, lease_seconds=20.0)
        with serving(database, open_objects(Settings(objects=crew.environment["HOLDFAST_OBJECTS"]))) as address:
            yield address
