"""What the workers on the hosts know: the tasks that their client asks for, in the lifecycle that everybody has.

One with effects could not be declared by a worker that has no database.
"""

from holdfast import Holdfast
from tests.crash.caller import SHAPES

hf = Holdfast()
hf.tasks.update({task.name: task for task in SHAPES})
