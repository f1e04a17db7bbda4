"""Chance, so that processes which do the same do not all do it at the same moment.

From the system, not from the generator that a whole process shares: that one belongs to whoever seeds it. Were a
handler to do so, all workers would pause alike, and each pause would take a number out of the handler's sequence.
"""

from random import SystemRandom

CHANCE = SystemRandom()
