"""What keeps a graph of tasks from being run."""

from holdfast.errors.root import HoldfastError


class GraphCycle(HoldfastError):
    """Tasks that wait for each other would wait for ever."""

    exit_code = 2
    http_status = 409
    http_code = "cycle"
    sqlstate = "TK045"
