"""Child processes that write to a log file and end with their parent."""

import itertools
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from .paths import RUN_DIR

_numbers = itertools.count()


def free_port():
    """A port that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, seconds, what):
    """Polls until the condition holds."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def answers(port, host="127.0.0.1"):
    """True when something accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, port)) == 0


class Process:
    """A child process. Start it from the main thread: Envoy ends with the thread that started it."""

    def __init__(self, name, command, cores=None):
        # Numbers of processes come again, those in a network of a test's own each time.
        RUN_DIR.mkdir(exist_ok=True)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-{next(_numbers)}-{name}-", dir=RUN_DIR))
        self.log = self.directory / "log"
        self.command = [str(word) for word in command]
        if cores is not None:
            self.command = ["taskset", "-c", str(cores), *self.command]
        self.child = None

    def start(self):
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        return self

    @property
    def pid(self):
        return self.child.pid

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def stop(self, how=signal.SIGTERM):
        if self.alive():
            self.child.send_signal(how)
            try:
                self.child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        return self.child.returncode if self.child else None

    def text(self):
        return pathlib.Path(self.log).read_text(errors="replace") if self.log.exists() else ""

    def cpu_seconds(self):
        """User and system time of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0
