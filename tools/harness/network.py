"""Networks of a test's own: one that nothing outside sees, and further ones behind links that can be cut."""

import functools
import json
import os
import subprocess

from .processes import wait_until

# With process numbers of its own as well: when the first process in it ends, or ours, all that runs there ends, and all
# links go.
_WORLD = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
_TRY = "ip link set lo up && ip link add near type veth peer name far && ip link del near && unshare --net true"


@functools.cache
def world():
    """How to begin a command in a network of its own, and why that cannot be: one of the two is `None`."""
    reasons = []
    # A user other than root may do it too where the kernel allows everybody to be root of what is theirs.
    for start in [_WORLD, [*_WORLD, "--map-root-user"]]:
        try:
            done = subprocess.run([*start, "sh", "-c", _TRY], capture_output=True, text=True)
        except OSError as error:
            return None, str(error)
        if done.returncode == 0:
            return start, None
        reasons.append(done.stderr.strip() or f"unshare ended with {done.returncode}")
    return None, "; ".join(dict.fromkeys(reasons))


class Network:
    """A network beside that of this process; it ends with the process that holds it, or with this one."""

    def __enter__(self):
        # It reads until this process closes its end or dies.
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        self.pid = self._holder.pid
        ours = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != ours, 10, "a network")
        self.inside = ["nsenter", f"--net=/proc/{self.pid}/ns/net"]
        return self

    def __exit__(self, *_):
        self._holder.stdin.close()
        self._holder.wait(10)


class Link:
    """Joins this process' network, at the address `here`, with another, where the far end has the address `there`."""

    def __init__(self, network, name, number):
        self.network, self.name = network, name
        self.here, self.there = f"10.77.{number}.1", f"10.77.{number}.2"
        self._ip("link", "add", name, "type", "veth", "peer", "name", name, "netns", network.pid)
        for address, inside in [(self.here, []), (self.there, network.inside)]:
            self._ip("address", "add", f"{address}/30", "dev", name, inside=inside)
            self._ip("link", "set", "dev", name, "up", inside=inside)

    def _ip(self, *words, inside=()):
        subprocess.run([*inside, "ip", *map(str, words)], check=True)

    def cut(self):
        """What either side sends vanishes. The far end still stands and knows no more than that its neighbour is silent."""
        self._ip("link", "set", "dev", self.name, "down")

    def mend(self):
        self._ip("link", "set", "dev", self.name, "up")

    def lost(self):
        """Packets that were sent at the far end and went nowhere."""
        shown = [*self.network.inside, "ip", "-statistics", "-json", "link", "show", "dev", self.name]
        sent = json.loads(subprocess.check_output(shown))[0]["stats64"]["tx"]
        return sent["dropped"] + sent["carrier_errors"]


def prepare():
    """In a new world nothing is up, not even loopback."""
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)
