"""What goes wrong with files: where they are kept, and the links that bring and fetch them."""

from holdfast.errors.root import HoldfastError


class ObjectsError(HoldfastError):
    """A file cannot be brought or fetched."""

    exit_code = 2
    http_status = 422


class ObjectsUnreachable(ObjectsError):
    """The place where files are kept cannot be used."""

    exit_code = 5
    http_status = 503


class ObjectMissing(ObjectsError):
    """There is no such file."""

    exit_code = 3
    http_status = 404


class UrlRefused(ObjectsError):
    """This link does not let anybody in."""

    http_status = 403


class UploadTooLarge(ObjectsError):
    """The file is larger than was agreed."""

    http_status = 413


class UploadTypeWrong(ObjectsError):
    """The file is of another type than was agreed."""

    http_status = 415


class UploadIncomplete(ObjectsError):
    """The file did not arrive as it was promised."""
