"""Whoever asks over a link that falls silent: `python -m tests.crash.silent_client`, the database in HOLDFAST_URL.

Says `ready`; then for each line that it reads it asks once, and says how many seconds it took until it knew.
"""

import asyncio
import contextlib
import sys
import time
from datetime import timedelta

from holdfast.errors import DatabaseUnreachable
from holdfast.kernel.postgres import Address, pooled
from holdfast.kernel.settings import read_settings
from holdfast.kernel.store import Store


async def main() -> None:
    async with pooled(Address(given=read_settings().url or ""), connections=1) as pool:
        store = Store(pool)
        await store.now()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while await asyncio.to_thread(sys.stdin.readline):
            began = time.monotonic()
            with contextlib.suppress(DatabaseUnreachable):
                await store.turn([], ["default"], lasting=timedelta(seconds=4), worker="silent")
            sys.stdout.write(f"{time.monotonic() - began:.2f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
