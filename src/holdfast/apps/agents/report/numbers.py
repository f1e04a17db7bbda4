"""Numbers as people read them: thousands divided, no more digits than say something."""

import math

NONE = "\N{EN DASH}"
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def number(given: float | None, digits: int = 4) -> str:
    """A number with its thousands divided and, below them, so many significant digits."""
    if given is None or not math.isfinite(given):
        return NONE
    if isinstance(given, int) or (given == int(given) and abs(given) < 1e15):
        return f"{int(given):,}".replace("-", "\N{MINUS SIGN}")
    if abs(given) >= 1e15 or abs(given) < 1e-4:
        return f"{given:.{digits - 1}e}".replace("-", "\N{MINUS SIGN}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(given))))
    said = f"{given:,.{min(decimals, 6)}f}"
    said = said.rstrip("0").rstrip(".") if "." in said else said
    return said.replace("-", "\N{MINUS SIGN}")


def share(given: float | None, decimals: int = 1) -> str:
    """A share of one in percent; never 0 % or 100 % unless it is exactly that."""
    if given is None or not math.isfinite(given):
        return NONE
    least = 10.0**-decimals
    percent = given * 100
    if 0 < percent < least:
        return f"< {least:g} %"
    if 100 - least < percent < 100:
        return f"> {100 - least:g} %"
    said = f"{percent:.{decimals}f}"
    return (said.rstrip("0").rstrip(".") if "." in said else said) + " %"


def size(given_bytes: int) -> str:
    """A number of bytes in the unit that suits it."""
    amount, place = float(given_bytes), 0
    while amount >= 1000 and place < len(UNITS) - 1:
        amount, place = amount / 1000, place + 1
    return f"{number(amount, 3)} {UNITS[place]}"


def counted(amount: int, one: str, many: str | None = None) -> str:
    """An amount with its noun: 1 row, 2 rows."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def coefficient(given: float | None) -> str:
    """A number between -1 and 1 with two decimals."""
    return NONE if given is None else f"{round(given, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")
