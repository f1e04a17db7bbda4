"""Where the files of this process are: the place that the settings name, or, without a database, the server's.

It is decided in this package, which knows both; `holdfast.objects` knows of no server.
"""

import functools

from holdfast.objects import Objects, open_objects
from holdfast.settings import Settings


@functools.lru_cache(maxsize=8)
def objects_of(settings: Settings) -> Objects:
    """The place for files, opened once for each that is named. Raises SettingInvalid."""
    if goes_through_server(settings):
        from holdfast.remote.objects import ServerObjects  # only who speaks HTTP pays for what it imports

        return ServerObjects(settings)
    return open_objects(settings)


def goes_through_server(settings: Settings) -> bool:
    """Whether files are brought and fetched through the server: there is no database here, and no place is named."""
    return settings.is_remote and settings.objects is None
