"""What goes wrong with those outside: people who are asked, and endpoints that are told."""

from holdfast.errors.root import HoldfastError


class QuestionError(HoldfastError):
    """The question cannot be answered."""

    exit_code = 4
    http_status = 409


class AlreadyAnswered(QuestionError):
    """The question was answered before, and otherwise."""

    sqlstate = "TK070"


class QuestionClosed(QuestionError):
    """Nobody waits for this answer any more."""

    http_status = 410
    sqlstate = "TK071"


class QuestionUnknown(QuestionError):
    """There is no such question."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK072"


class WebhookUnknown(HoldfastError):
    """There is no such webhook, or no such delivery."""

    exit_code = 3
    http_status = 404
    sqlstate = "TK073"
