"""The Postgres that Holdfast brings along."""

from holdfast.kernel.embedded.cluster import major_version
from holdfast.kernel.embedded.folder import is_watched, read_postmaster
from holdfast.kernel.embedded.holder import OLDEST_POSTGRES, Embedded, binary_folders, find_binaries

__all__ = [
    "OLDEST_POSTGRES",
    "Embedded",
    "binary_folders",
    "find_binaries",
    "is_watched",
    "major_version",
    "read_postmaster",
]
