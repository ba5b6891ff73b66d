"""What every system has."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

PATH = "/v1/chat/completions"


class System:
    """`name`: on the command line; `title`: in tables; `told`: what has to be known beforehand; `temporal`: calls are activities;
    `seconds`: length of a run."""

    name = title = told = None
    temporal = False
    seconds = 54.0

    def __init__(self, load):
        self.load = load

    def config(self):
        """The configuration that this system needs for its limits, without the proxy around it."""
        return ""

    async def start(self, stack, provider_port):
        """Starts it (processes go on the exit stack) and returns the arguments for `Driver`."""
        raise NotImplementedError


class Naive(System):
    name, title, told = "naive", "naive retry", "nothing"

    async def start(self, stack, provider_port):
        return {"url": f"http://127.0.0.1:{provider_port}{PATH}"}
