"""Personal data and secrets in a table: which kinds there are, how they are found, and how they are shown.

What is found is shown only masked (`mask.py`). Finding reads a sample and goes by shape, check digit and the column's
name, so that silence is no proof: a name in a column called `x` passes unseen if it is not a common one.
"""

from holdfast.apps.agents.personal.finding import Seen, curtain_for, find_personal
from holdfast.apps.agents.personal.kinds import KINDS, Kind
from holdfast.apps.agents.personal.mask import Curtain, mask, redact

__all__ = ["KINDS", "Curtain", "Kind", "Seen", "curtain_for", "find_personal", "mask", "redact"]
