"""A store for a fleet: redis-server behind Webdis, as Debian packages them."""

import json
import shutil
import signal
import subprocess

from .processes import Process, answers, free_port, wait_until


def installed():
    """True when both programs are there."""
    return bool(shutil.which("redis-server") and shutil.which("webdis"))


class Store:
    """A running redis-server and a Webdis in front of it, with the access rules that `envoy/fleet/` ships."""

    def __init__(self, user="fleet", password="test-only"):
        self.redis_port, self.port = free_port(), free_port()
        self.auth = {"user": user, "password": password}
        self.redis = Process("redis", [
            "redis-server", "--port", self.redis_port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        self.webdis = Process("webdis", [])
        settings = {
            "redis_host": "127.0.0.1", "redis_port": self.redis_port, "http_host": "127.0.0.1", "http_port": self.port,
            "threads": 2, "pool_size": 8, "daemonize": False, "verbosity": 2, "logfile": str(self.webdis.directory / "webdis.log"),
            "acl": [{"disabled": ["*"]}, {"http_basic_auth": f"{user}:{password}", "enabled": ["EVALSHA", "EVAL"]}],
        }
        path = self.webdis.directory / "webdis.json"
        path.write_text(json.dumps(settings))
        self.webdis.command = ["webdis", str(path)]

    def __enter__(self):
        self.start_redis()
        self.webdis.start()
        wait_until(lambda: answers(self.port), 10, "Webdis")
        return self

    def __exit__(self, *_):
        self.webdis.stop(signal.SIGKILL)
        self.redis.stop(signal.SIGKILL)

    def start_redis(self):
        self.redis.start()
        wait_until(lambda: answers(self.redis_port), 10, "redis-server")

    def kill_redis(self):
        """Everything it held is gone."""
        self.redis.stop(signal.SIGKILL)

    def revive(self):
        """Makes it run, whatever a test left of it."""
        if not self.redis.alive():
            self.start_redis()
        self.thaw()

    def freeze(self):
        """Keeps the connections and answers nothing."""
        self.redis.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.redis.child.send_signal(signal.SIGCONT)

    def command(self, *words):
        """One command past Webdis."""
        done = subprocess.run(["redis-cli", "-p", str(self.redis_port), *map(str, words)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def settings(self, **more):
        """The filter's key `fleet` for this store; its cluster is `store`."""
        return {"store": "redis", "cluster": "store", "auth": self.auth, **more}
