"""Redis servers of one's own: on a free port of this machine, with their data in a temporary directory, ended by the pid that was started.

    with Redis() as redis:
        url = redis.url(prefix="one")

Nothing is kept over a restart unless asked for: Redis(appendonly=True). TLS on a second port, by a certificate of an authority
(certificates.py): Redis(tls=authority); url() is that port's. A replica follows another server: Redis(of=redis). A Sentinel
watches one: Sentinel(redis, "name").
"""

import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from ports import free_port

TIMEOUT_S = 30
POLL_S = 0.01


def program():
    return shutil.which("redis-server", path="/usr/bin:/usr/local/bin:/usr/sbin")


def started(*command, log):
    """Not longer than the thread that starts it."""
    return subprocess.Popen(["setpriv", "--pdeathsig=KILL", *map(str, command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class Redis:
    """One server."""

    def __init__(self, appendonly=False, of=None, settings=None, port=None, tls=None):
        assert program(), "Redis is missing: install Debian's package redis-server"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belfry-redis-"))
        self.port = port or free_port()
        self.process = None
        self.settings = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "save": "", "daemonize": "no",
                         "appendonly": "yes" if appendonly else "no", "appendfsync": "always", "repl-diskless-sync-delay": 0,
                         **(settings or {})}
        self.tls, self.tls_port = tls, free_port() if tls else None
        if tls:
            tls.certificate("redis")
            self.settings |= {"tls-port": self.tls_port, "tls-cert-file": tls.folder / "redis.pem", "tls-key-file": tls.folder / "redis.key",
                              "tls-ca-cert-file": tls.ca_file, "tls-auth-clients": "no"}
        if of:
            self.settings["replicaof"] = f"127.0.0.1 {of.port}"

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Returns once it answers, and has read what it has."""
        if self.process:
            return self
        words = [word for name, value in self.settings.items() for word in (f"--{name}", *([""] if value == "" else str(value).split()))]
        with open(self.folder / "log", "ab") as log:
            self.process = started(program(), *words, log=log)
        self.until(lambda: self.ask("PING") == "PONG")
        return self

    def stop(self, how=signal.SIGTERM):
        """SIGKILL: as if it had crashed."""
        if not self.process:
            return
        self.process.send_signal(how)
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(TIMEOUT_S)
        self.process = None

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        return self.start()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-5000:]

    def until(self, true):
        end = time.monotonic() + TIMEOUT_S
        while not true():
            assert self.process.poll() is None and time.monotonic() < end, f"Redis did not get there:\n{self.log()}"
            time.sleep(POLL_S)

    def ask(self, *words):
        """What it says to a command, as redis-cli prints it; an error is text too."""
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
        return done.stdout.decode("utf-8", "replace").strip()

    def info(self, name):
        """One value of INFO."""
        for line in self.ask("INFO", "all").splitlines():
            if line.startswith(name + ":"):
                return line.partition(":")[2].strip()
        return None

    def url(self, *others, **parameters):
        """others: servers that are named after this one."""
        where = ",".join(f"127.0.0.1:{server.tls_port or server.port}" for server in (self, *others))
        parameters |= {"cacert": self.tls.ca_file} if self.tls else {}
        more = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"{'rediss' if self.tls else 'redis'}://{where}/0" + (f"?{more}" if more else "")

    def replica(self):
        """A server that follows this one, and has all that it has."""
        other = Redis(of=self).start()
        other.until(lambda: other.info("master_link_status") == "up")
        return other

    def follow_nobody(self):
        self.ask("REPLICAOF", "NO", "ONE")


class Sentinel(Redis):
    """Watches a server, and names the one to be written to."""

    def __init__(self, server, name):
        super().__init__()
        self.name = name
        self.file = self.folder / "sentinel.conf"
        self.file.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\nsentinel monitor {name} 127.0.0.1 {server.port} 1\n"
                             f"sentinel down-after-milliseconds {name} 300\nsentinel failover-timeout {name} 3000\n")

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = started(program(), self.file, "--sentinel", log=log)
        self.until(lambda: self.ask("PING") == "PONG")
        return self

    def url(self, *_, **parameters):
        more = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"redis+sentinel://127.0.0.1:{self.port}/{self.name}" + (f"?{more}" if more else "")

    def master_port(self):
        return int(self.ask("SENTINEL", "get-master-addr-by-name", self.name).split()[-1])
