"""A line to a server on which files break off in the middle."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

FILE = re.compile(rb"(PUT|GET) /objects/(\S+) HTTP")


class Cutting:
    """Passes everything on, but of the first so many files only a part; or all, and not the answer."""

    def __init__(self, port: int, cuts: int, after_bytes: int | None) -> None:
        self._port = port
        self.cuts = cuts
        self.after_bytes = after_bytes
        self.links: list[bytes] = []
        """What was asked for by links, in order."""

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        passed = 0
        cut = False

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            nonlocal passed, cut
            while data := await source.read(65536):
                if found := FILE.match(data):
                    self.links.append(found[2])
                    passed, cut = 0, len(self.links) <= self.cuts
                passed += len(data)
                is_over = source is from_server if self.after_bytes is None else passed > self.after_bytes
                if cut and is_over:
                    return
                target.write(data)
                await target.drain()

        ways = [asyncio.create_task(pump(reader, to_server)), asyncio.create_task(pump(from_server, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, to_server):
                end.transport.abort()
                with contextlib.suppress(OSError):
                    await end.wait_closed()


@contextlib.asynccontextmanager
async def cutting(address: str, *, cuts: int, after_bytes: int | None = 1 << 20) -> AsyncIterator[tuple[str, Cutting]]:
    """Another address of the same server, and what happens on the way there."""
    line = Cutting(urlsplit(address).port or 0, cuts, after_bytes)
    met: set[asyncio.Task[None]] = set()

    def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.add(asyncio.create_task(line.meet(reader, writer)))

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", line
        for one in met:
            one.cancel()
        await asyncio.gather(*met, return_exceptions=True)
