import time
from collections import Counter
from holdfast.testing import Ground
from tests.machine.opening import opened
from tests.simulation.simulation import play

def test_one(ground: Ground) -> None:
    tally = Counter()
    with opened(ground, tally) as stage:
        t = time.time(); c=time.process_time()
        n = play(stage, 1, 2000)
        print(n, time.time() - t, time.process_time()-c, tally)
