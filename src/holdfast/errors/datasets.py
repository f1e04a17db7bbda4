"""What goes wrong with datasets: where they are, what they hold, which of their generations can be read."""

from holdfast.errors.root import HoldfastError


class DatasetError(HoldfastError):
    """The dataset does not allow that now."""

    exit_code = 4
    http_status = 409


class DatasetNotFound(DatasetError):
    """There is no such dataset."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK040"


class GenerationIncomplete(DatasetError):
    """This generation cannot be current."""

    sqlstate = "TK041"
    http_code = "not-complete"


class OutputRefused(DatasetError):
    """This output cannot be published."""

    http_status = 422
    exit_code = 2
    sqlstate = "TK042"
