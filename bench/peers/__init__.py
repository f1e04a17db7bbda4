"""Holdfast beside other task queues, on one machine, one Postgres, in one run: `make bench-peers`.

Each peer has an environment of its own and a small adaptor (`adaptors/`) that is run in it and speaks the peer's own
API; `registry.py` says with which settings and why. The frame (`frame.py`, `workloads.py`) does the same to all of them
and measures from outside. Rounds are interleaved, so that what the machine does meanwhile hits all alike.
"""
