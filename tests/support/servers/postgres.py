"""A PostgreSQL server of one's own: on a free port of this machine, with its data in a temporary directory, ended by the pid that was
started. PostgreSQL does not run as root: started by root, it runs as the user that Debian's package has made for it.

    with Postgres() as postgres:
        url = postgres.url(postgres.new_database())

Belfry is the plain user `belfry`, whose password is in the URL though the server would trust it without; of `locked` it is checked. What a
test does to the server it does as `postgres`, over the socket. Nothing is synced to disk unless asked for: a crash of the server, which is
what tests bring about, loses nothing by that.
"""

import functools
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ports import free_port

TIMEOUT_S = 60
POLL_S = 0.01
PASSWORD = "s3cret:word@%"  # what a URL has to write otherwise
PASSWORD_IN_URL = "s3cret%3Aword%40%25"
SETTINGS = {"listen_addresses": "127.0.0.1", "max_connections": "200", "shared_buffers": "64MB", "logging_collector": "off",
            "log_line_prefix": "%m [%p] %u ", "max_wal_size": "512MB", "wal_keep_size": "64MB"}
UNSYNCED = {"fsync": "off", "full_page_writes": "off"}
WHO_IS_CHECKED = "local all all trust\nlocal replication all trust\nhost all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def binaries():
    """Where Debian keeps the newest version's programs, which are not in PATH; None where there is no PostgreSQL."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parents[1].name))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("postgres")
    return pathlib.Path(elsewhere).parent if elsewhere else None


def unprivileged(*command):
    """Not as root, and not longer than the thread that starts it."""
    who = ["--reuid=postgres", "--regid=postgres", "--init-groups"] if os.geteuid() == 0 else []
    return ["setpriv", "--pdeathsig=INT", *who, *map(str, command)]


class Postgres:
    """One server. of: the server it is to follow as a synchronous standby."""

    def __init__(self, fsync=False, settings=None, of=None):
        self.bin = binaries()
        assert self.bin, "PostgreSQL is missing: install Debian's package postgresql"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belfry-postgres-"))
        self.data = self.folder / "data"
        self.port = free_port()
        self.process = None
        self.settings = {**SETTINGS, **({} if fsync else UNSYNCED), **(settings or {})}
        self.numbers = itertools.count()
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        if of:
            self._copy(of)
        else:
            self._make()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    # ---- its life ----

    def _run(self, program, *arguments):
        done = subprocess.run(unprivileged(self.bin / program, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S, cwd=self.folder, check=False)
        assert done.returncode == 0, f"{program}: {done.stdout.decode('utf-8', 'replace')}"

    def _make(self):
        self._run("initdb", "-D", self.data, "-U", "postgres", "--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C")
        (self.data / "pg_hba.conf").write_text(WHO_IS_CHECKED)
        self.start()
        self.sql("; ".join(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'" for name in ("belfry", "locked")))
        self.stop()

    def _copy(self, primary):
        """As it is now, and from then on all that the other commits, before it says so."""
        self._run("pg_basebackup", "-D", self.data, "-h", primary.folder, "-p", primary.port, "-U", "postgres", "--checkpoint=fast",
                  "--no-sync", "-X", "stream")
        (self.data / "standby.signal").touch()
        self.settings["primary_conninfo"] = f"host={primary.folder} port={primary.port} user=postgres application_name=standby"
        self.start()
        primary.set("synchronous_standby_names", "standby")
        primary.until("SELECT 1 FROM pg_stat_replication WHERE application_name = 'standby' AND sync_state = 'sync'")

    def start(self):
        """Returns once it takes connections."""
        if self.process:
            return self
        words = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(unprivileged(self.bin / "postgres", "-D", self.data, "-k", self.folder, "-p", self.port, *words),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + TIMEOUT_S
        while self._psql("SELECT 1", "postgres").returncode:
            assert self.process.poll() is None and time.monotonic() < end, f"PostgreSQL did not start:\n{self.log()}"
            time.sleep(POLL_S)
        return self

    def stop(self, how="fast"):
        """fast: sessions are broken off, all is written. immediate: as if it had crashed."""
        if not self.process:
            return
        self.process.send_signal(SIGNALS[how])
        try:
            self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"PostgreSQL did not stop:\n{self.log()}") from None
        self.process = None

    def restart(self, how="fast"):
        self.stop(how)
        return self.start()

    def close(self):
        """For the end, however it went."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-5000:]

    @functools.cached_property
    def version(self):
        said = subprocess.run([self.bin / "postgres", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        return int(re.search(r"\d+", said)[0])

    # ---- its databases ----

    def new_database(self, like="template0"):
        """Empty, or a copy of another one, to which nobody is connected. Copied by file, which takes half of the time of a copy by log."""
        name = f"belfry_{next(self.numbers)}"
        how = "STRATEGY file_copy" if self.version >= 15 else ""
        self.sql(f"CREATE DATABASE {name} OWNER belfry TEMPLATE {like} {how}")
        return name

    def drop_database(self, name):
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def url(self, database, *hosts, user="belfry", **parameters):
        """hosts: ports to reach it by, of several servers or of proxies before it; default: its own."""
        where = ",".join(f"127.0.0.1:{port}" for port in hosts or (self.port,))
        more = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"postgres://{user}:{PASSWORD_IN_URL}@{where}/{database}" + (f"?{more}" if more else "")

    def _psql(self, text, database):
        environment = {**os.environ, "PGOPTIONS": "", "PGCONNECT_TIMEOUT": "5"}
        return subprocess.run([self.bin / "psql", "-h", self.folder, "-p", str(self.port), "-U", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1",
                               "-d", database, "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment, check=False)

    def sql(self, text, database="postgres"):
        """As the superuser; returns the lines it gives."""
        done = self._psql(text, database)
        assert done.returncode == 0, f"{text}: {done.stderr.decode('utf-8', 'replace')}"
        return done.stdout.decode().splitlines()

    def until(self, text, database="postgres"):
        end = time.monotonic() + TIMEOUT_S
        while not (found := self.sql(text, database)):
            assert time.monotonic() < end, f"nothing after {TIMEOUT_S} s: {text}\n{self.log()}"
            time.sleep(POLL_S)
        return found

    def set(self, name, value):
        """From now on, also over restarts."""
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")

    # ---- what happens to servers ----

    def standby(self):
        """A synchronous standby of this one, started: nothing is committed here before it is there."""
        return Postgres(settings=self.settings, of=self)

    def follow(self, primary):
        """What it had is forgotten: it comes back as a standby of the other."""
        self.stop("immediate")
        shutil.rmtree(self.data)
        self._copy(primary)

    def promote(self):
        """A standby becomes the server that can be written to, alone."""
        assert self.sql("SELECT pg_promote(true, 60)") == ["t"], self.log()
        self.settings.pop("primary_conninfo", None)
        self.set("synchronous_standby_names", "")

    def sessions(self, database, where="true"):
        """How many of Belfry's there are."""
        return int(self.sql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND usename = 'belfry' AND {where}")[0])

    def terminate(self, database, count=None):
        """Ends sessions of Belfry's, some or all of them; returns how many."""
        limit = f"ORDER BY random() LIMIT {count}" if count else ""
        return len(self.sql(f"SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = '{database}' "
                            f"AND usename = 'belfry' {limit}) AS x"))

    def exhaust(self, database, connections=0):
        """Belfry may have so many connections from now on, and those that it has are ended; -1: any number."""
        self.sql(f"ALTER ROLE belfry CONNECTION LIMIT {connections}")
        if connections >= 0:
            self.terminate(database)


class Pooler:
    """pgbouncer before a server: it lends a connection for a transaction, so that nothing of a session stays."""

    def __init__(self, postgres):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belfry-pgbouncer-"))
        self.port = free_port()
        (self.folder / "users").write_text(f'"belfry" "{PASSWORD}"\n')
        (self.folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={postgres.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {self.folder}/users\npool_mode = transaction\n"
            "default_pool_size = 8\nmax_client_conn = 200\n")
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.iterdir()):
                shutil.chown(path, "postgres", "postgres")

    @staticmethod
    def program():
        return shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")

    def __enter__(self):
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(unprivileged(self.program(), self.folder / "pgbouncer.ini"), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                words = (self.folder / "log").read_text(errors="replace")
                assert self.process.poll() is None and time.monotonic() < end, f"pgbouncer did not start:\n{words}"
                time.sleep(POLL_S)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(TIMEOUT_S)
        shutil.rmtree(self.folder, ignore_errors=True)
