"""The Postgres that Holdfast brings along."""

from holdfast.postgres.embedded.cluster import major_version
from holdfast.postgres.embedded.folder import is_watched, read_postmaster
from holdfast.postgres.embedded.holder import OLDEST_POSTGRES, Embedded, binary_folders, find_binaries

__all__ = [
    "OLDEST_POSTGRES",
    "Embedded",
    "binary_folders",
    "find_binaries",
    "is_watched",
    "major_version",
    "read_postmaster",
]
