"""A worker is two processes: the runner, in which user code runs, and the keeper, which runs none.

The runner claims, runs, checkpoints and settles. Nothing that user code does can stop the keeper: it keeps the leases
alive, tells the runner what was cancelled or lost, stops a runner that does not listen, and hands its leases back at
once when it dies.

    keeper  --- go, cancel, lost, over, leave ------------------------------->  runner
            <-- loaded, refused, begun, shown, waiting, ended, alone, left ----

The two speak in lines of JSON over two pipes. Either sees at once when the other is gone. If the runner is gone, the
keeper starts another. If the keeper is gone, the runner stops what it runs, gives it back and ends.
"""
