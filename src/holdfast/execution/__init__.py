"""One attempt of one handler: what it can call, how it runs, what came of it."""
