"""A proxy before Postgres that can be told to misbehave: `python -m tests.crash.proxy PORT`.

It prints the port on which it listens, then reads commands, one a line, and says `healed` when each is over:

    reset 0      every connection is reset
    mute 0.5     requests pass, answers are dropped, then every connection is reset: what was committed is not known
    half 2.5     nothing passes either way and nobody is told; then every connection is reset
"""

import asyncio
import contextlib
import sys

chunk = 65536


class Proxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._mode = ""
        self._connections: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        async with server:
            await self._obey()

    async def _obey(self) -> None:
        commands = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        while line := await commands.readline():
            self._mode, seconds = line.decode().split()
            await asyncio.sleep(float(seconds))
            self._mode = ""
            for one in list(self._connections):
                one.transport.abort()
            sys.stdout.write("healed\n")
            sys.stdout.flush()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
            ends.append(to_server)
            self._connections.update(ends)
            there = asyncio.create_task(self._pump(reader, to_server, dropped_in=("half",)))
            back = asyncio.create_task(self._pump(from_server, writer, dropped_in=("half", "mute")))
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            back.cancel()
        except OSError:
            pass  # the server is away, and so are we
        finally:
            self._connections.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, dropped_in: tuple[str, ...]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(chunk):
                if self._mode not in dropped_in:
                    target.write(data)
                    await target.drain()


if __name__ == "__main__":
    asyncio.run(Proxy(int(sys.argv[1])).serve())
