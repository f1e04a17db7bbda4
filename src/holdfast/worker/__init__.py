"""A worker is two processes: the runner, in which user code runs, and the supervisor, which runs none.

The runner claims, runs, checkpoints and settles. Nothing that user code does can stop the supervisor: it keeps the
leases alive, passes on what was cancelled or lost, ends a runner that does not stop, and gives its leases back at once
when it dies.

    supervisor  --- start, cancel, lost, isolated_ended, leave ---------------------->  runner
                <-- loaded, refused, started, progress, unsettled, ended, isolate, left ---

They exchange lines of JSON over two pipes. Either sees at once when the other is gone. If the runner is gone, the
supervisor starts another. If the supervisor is gone, the runner stops what it runs, gives it back and ends.
"""
