"""Several hosts on one machine: network namespaces, joined by a bridge that is in a namespace of its own.

Nothing of it is seen from outside: the machine's own interfaces and routes stay as they are, and the addresses mean
nothing out there. Files and clocks are shared.

Every host knows the others' hardware addresses from the beginning. A direction is cut by telling the sender one that
nobody has: what it sends from then on arrives nowhere, and nobody says so; what the other one sends still comes in.
So half a conversation can be lost, between two hosts and no others, as a broken switch or a firewall does it.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

PREFIX = "holdfast-hosts-"
NETWORK = "10.213.7"
BRIDGE = "bridge"
NOBODY = "02:00:00:00:ff:ff"
gone_within_seconds = 10.0


class NotAllowed(Exception):
    """There can be no hosts here; the message says why."""


class Host:
    """One namespace with one interface."""

    def __init__(self, name: str, space: str, number: int) -> None:
        self.name = name
        self.space = space
        self.address = f"{NETWORK}.{number}"
        self.hardware = f"02:00:00:00:00:{number:02x}"

    def start(
        self, command: Sequence[str], log: Path, environment: dict[str, str], *, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Run a command there: the process that is returned is the command's own."""
        with log.open("ab") as output:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.space, *command],
                stdin=stdin, stdout=output, stderr=output, env={**os.environ, **environment},
            )  # fmt: skip


class Network:
    """Hosts that all reach each other until they are cut off. When it is closed, they go with all that runs there."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises NotAllowed, and then has left nothing."""
        mark = f"{PREFIX}{os.getpid()}-"
        self.hosts = {name: Host(name, f"{mark}{name}", number) for number, name in enumerate(names, start=1)}
        self._bridge = f"{mark}{BRIDGE}"
        self._severed: set[tuple[Host, Host]] = set()
        try:
            remove(space for space in spaces() if not is_alive(space) or space.startswith(mark))
            self._build()
        except FileNotFoundError as error:
            raise NotAllowed(f"there is no {error.filename} (iproute2)") from error
        except subprocess.CalledProcessError as error:
            self.close()
            raise NotAllowed(f"no network namespaces: {error.stderr.strip()}") from error

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def _build(self) -> None:
        hosts = self.hosts.values()
        ip(f"netns add {self._bridge}", *(f"netns add {host.space}" for host in hosts))
        ip(f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up", within=self._bridge)
        ip(*(f"link add eth0 netns {one.space} type veth peer name {one.name} netns {self._bridge}" for one in hosts))
        ip(*(f"link set {host.name} master {BRIDGE} up" for host in hosts), within=self._bridge)
        for host in hosts:
            own = f"link set eth0 address {host.hardware}", f"address add {host.address}/24 dev eth0"
            ip("link set lo up", *own, within=host.space)
            self.raise_link(host)

    def close(self) -> None:
        remove([*(host.space for host in self.hosts.values()), self._bridge])

    # What can go wrong between them

    def sever(self, sender: Host, receiver: Host) -> None:
        """From now on nothing that one sends arrives at the other; the other way it does. Nobody is told."""
        self._severed.add((sender, receiver))
        ip(self._introduced(sender, receiver), within=sender.space)

    def mend(self, sender: Host, receiver: Host) -> None:
        self._severed.discard((sender, receiver))
        ip(self._introduced(sender, receiver), within=sender.space)

    def unplug(self, host: Host) -> None:
        """Pull the cable: nothing comes or goes."""
        ip(f"link set {host.name} down", within=self._bridge)

    def plug(self, host: Host) -> None:
        ip(f"link set {host.name} up", within=self._bridge)

    def lower_link(self, host: Host) -> None:
        """Take its interface down: whoever calls from there is told at once that there is no way."""
        ip("link set eth0 down", within=host.space)

    def raise_link(self, host: Host) -> None:
        """Take it up again. It knows nobody any more, and is told."""
        others = [other for other in self.hosts.values() if other is not host]
        ip("link set eth0 up", *(self._introduced(host, other) for other in others), within=host.space)

    def heal(self) -> None:
        """Let everybody reach everybody."""
        self._severed.clear()
        for host in self.hosts.values():
            self.plug(host)
            self.raise_link(host)

    def _introduced(self, host: Host, other: Host) -> str:
        hardware = NOBODY if (host, other) in self._severed else other.hardware
        return f"neighbour replace {other.address} lladdr {hardware} dev eth0 nud permanent"


def ip(*commands: str, within: str = "") -> None:
    """Let iproute2 do this, in a namespace. Raises FileNotFoundError or CalledProcessError."""
    place = ["-netns", within] if within else []
    text = "\n".join(commands) + "\n"
    subprocess.run(["ip", *place, "-batch", "-"], input=text, capture_output=True, text=True, check=True)


def spaces() -> list[str]:
    """All namespaces of ours, also those that a killed run has left."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [name for line in listed.splitlines() if (name := line.split()[0]).startswith(PREFIX)]


def is_alive(space: str) -> bool:
    """Whether the run that made it is still there."""
    return psutil.pid_exists(int(space.removeprefix(PREFIX).partition("-")[0]))


def remove(gone: Iterable[str]) -> None:
    """Remove these namespaces, with everything that runs in them; some may not be there."""
    for space in set(gone) & set(spaces()):
        listed = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False).stdout
        left = []
        for pid in map(int, listed.split()):
            with contextlib.suppress(psutil.NoSuchProcess):
                left.append(psutil.Process(pid))
                left[-1].kill()
        psutil.wait_procs(left, timeout=gone_within_seconds)
        ip(f"netns delete {space}")
