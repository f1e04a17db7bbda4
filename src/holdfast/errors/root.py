"""The root of all errors."""

import re
from inspect import cleandoc
from typing import Any, ClassVar


class HoldfastError(Exception):
    """Something in Holdfast went wrong."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    sqlstate: ClassVar[str | None] = None
    http_code: ClassVar[str] = "holdfast-error"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "http_code" not in vars(cls):
            cls.http_code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, detail: str = "", *, fix: str = "") -> None:
        self.title = " ".join(cleandoc(type(self).__doc__ or "").split())
        self.detail = detail
        self.fix = fix
        self.more: dict[str, object] = {}  # what an HTTP answer tells besides
        super().__init__("\n".join(part for part in (self.title, detail, fix) if part))
