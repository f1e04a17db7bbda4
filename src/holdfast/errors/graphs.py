"""What keeps a graph of tasks, or a schedule, from being run."""

from holdfast.errors.root import HoldfastError


class GraphCycle(HoldfastError):
    """Tasks that wait for each other would wait for ever."""

    exit_code = 2
    http_status = 409
    http_code = "cycle"
    sqlstate = "TK045"


class GraphUnknown(HoldfastError):
    """There is no such graph, or no such run of one."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK046"


class ScheduleUnknown(HoldfastError):
    """There is no such schedule."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK074"
