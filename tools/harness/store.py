"""A store for a fleet: redis-server behind Webdis, as Debian packages them, with the files that `envoy/fleet/` ships."""

import contextlib
import http.server
import json
import shutil
import signal
import subprocess
import threading

from .paths import ROOT
from .processes import Process, answers, free_port, wait_until

SHIPPED = ROOT / "envoy" / "fleet"
# The shipped user may do nothing but what the script does, so the tests look into the store as one of their own.
TESTER = ["tester", "test-only"]


def installed():
    """True when both programs are there."""
    return bool(shutil.which("redis-server") and shutil.which("webdis"))


class Front:
    """One Webdis with the shipped file; only the ports, the log's place and the number of threads are the test's."""

    def __init__(self, redis_port, host):
        self.port = free_port()
        self.process = Process("webdis", [])
        settings = json.loads((SHIPPED / "webdis.json").read_text()) | {
            "redis_port": redis_port, "http_host": host, "http_port": self.port, "threads": 2, "pool_size": 8,
            "logfile": str(self.process.directory / "webdis.log")}
        path = self.process.directory / "webdis.json"
        path.write_text(json.dumps(settings))
        self.process.command = ["webdis", str(path)]

    def start(self):
        self.process.start()
        wait_until(lambda: answers(self.port), 10, "Webdis")

    def stop(self):
        self.process.stop(signal.SIGKILL)

    def freeze(self):
        """Whoever comes this way reaches nothing."""
        self.process.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.child.send_signal(signal.SIGCONT)


class Nonsense(http.server.BaseHTTPRequestHandler):
    """Answers everything with a page, each on a connection of its own: none outlives it."""

    protocol_version = "HTTP/1.0"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_):
        pass


class Store:
    """A running redis-server and the Webdis in front of it; with `fronts` several of them, each a way of its own.

    `host`: the address at which they listen; that of loopback must be among them."""

    def __init__(self, fronts=1, host="127.0.0.1"):
        self.redis_port = free_port()
        self.redis = Process("redis", [])
        users = self.redis.directory / "users.acl"
        name, password = TESTER
        users.write_text((SHIPPED / "users.acl").read_text() + f"user {name} on >{password} ~* &* +@all\n")
        self.redis.command = [
            "redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--aclfile", str(users)]
        self.fronts = [Front(self.redis_port, host) for _ in range(fronts)]
        basic = json.loads((SHIPPED / "webdis.json").read_text())["acl"][1]["http_basic_auth"]
        self.auth = dict(zip(["user", "password"], basic.split(":")))
        self.port = self.fronts[0].port

    def __enter__(self):
        self.start_redis()
        for front in self.fronts:
            front.start()
        return self

    def __exit__(self, *_):
        for front in self.fronts:
            front.stop()
        self.redis.stop(signal.SIGKILL)

    def start_redis(self):
        self.redis.start()
        wait_until(lambda: answers(self.redis_port), 10, "redis-server")

    def kill_redis(self):
        """Everything it held is gone."""
        self.redis.stop(signal.SIGKILL)

    def revive(self):
        """Makes it run, whatever a test left of it."""
        for front in self.fronts:
            if not front.process.alive():
                front.start()
            front.thaw()
        if not self.redis.alive():
            self.start_redis()
        self.thaw()
        self.command("CONFIG", "SET", "maxmemory", "0")

    def freeze(self):
        """Keeps the connections and answers nothing."""
        self.redis.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.redis.child.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def nonsense(self):
        """Something that is not Webdis answers in place of all fronts."""
        servers = []
        for front in self.fronts:
            front.stop()
            server = http.server.ThreadingHTTPServer(("127.0.0.1", front.port), Nonsense)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.append(server)
        try:
            yield
        finally:
            for server in servers:
                server.shutdown()
                server.server_close()

    def command(self, *words):
        """One command past Webdis."""
        done = subprocess.run(
            ["redis-cli", "-p", str(self.redis_port), "--user", TESTER[0], "--pass", TESTER[1], "--no-auth-warning", *map(str, words)],
            capture_output=True, text=True, errors="replace", check=True)
        return done.stdout.strip()

    def settings(self, **more):
        """The filter's key `fleet` for this store; its cluster is `store`."""
        return {"store": "redis", "cluster": "store", "auth": self.auth, **more}
