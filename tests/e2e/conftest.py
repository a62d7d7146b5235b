"""What the end-to-end tests share: where the build is, and one way to run the real binary.

BELFRY_BUILD names the build directory (default: build in the repository).
"""

import dataclasses
import os
import pathlib
import pty
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BELFRY_BUILD", ROOT / "build")).resolve()
TIMEOUT_S = 20


@dataclasses.dataclass
class Done:
    """How a run ended. Bytes that are no UTF-8 are kept as surrogates."""

    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


def read_terminal(master, chunks):
    """All that is written to a pseudo terminal; its end comes as an error."""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            return
        if not chunk:
            return
        chunks.append(chunk)


def run(*args, stdin=None, tty=False, env=None, cwd=None, timeout_s=TIMEOUT_S):
    """Runs belfry; with tty its stdout is a terminal. Arguments may be bytes."""
    command = [BUILD / "belfry", *args]
    environment = {**os.environ, **(env or {})}
    common = {"input": stdin.encode() if stdin is not None else b"", "stderr": subprocess.PIPE, "timeout": timeout_s,
              "env": environment, "cwd": cwd, "check": False}
    if not tty:
        done = subprocess.run(command, stdout=subprocess.PIPE, **common)
        out = done.stdout
    else:
        master, slave = pty.openpty()
        chunks = []
        reader = threading.Thread(target=read_terminal, args=(master, chunks))
        reader.start()
        try:
            done = subprocess.run(command, stdout=slave, **common)
        finally:
            os.close(slave)
            reader.join()
            os.close(master)
        out = b"".join(chunks).replace(b"\r\n", b"\n")
    decode = lambda b: b.decode("utf-8", "surrogateescape")
    return Done(done.returncode, decode(out), decode(done.stderr))


@pytest.fixture(scope="session")
def build():
    assert (BUILD / "belfry").is_file(), f"no belfry in {BUILD}: build it, or name the build directory in BELFRY_BUILD"
    return BUILD


@pytest.fixture(scope="session")
def belfry(build):
    """belfry(*args, stdin=None, tty=False, env=None, cwd=None): code, out, err."""
    return run


@pytest.fixture
def make_server(build, tmp_path):
    """make_server(*arguments, env=None): a server on a data directory of its own, started; killed after the test."""
    from server import Server  # which itself asks us where the build is

    made = []

    def make(*arguments, start=True, **more):
        server = Server(tmp_path / f"data{len(made)}", *arguments, **more)
        made.append(server)
        return server.start() if start else server

    yield make
    for server in made:
        server.close()


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def client(server):
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def receiver():
    from server import Receiver

    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def clock(build, tmp_path):
    """A wall clock to set, for make_server(env=clock.env)."""
    from clock import SHIM, Clock

    if not SHIM.is_file():
        pytest.skip(f"jumped clock: this build has no {SHIM.name}")
    return Clock(tmp_path / "clock")


@pytest.fixture
def counts(record_property):
    """counts(text): a line of figures that is shown at the end, whether the test passed or not."""
    return lambda text: record_property("counts", str(text))


def pytest_terminal_summary(terminalreporter):
    lines = [text for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", "") == "call"
             for name, text in report.user_properties if name == "counts"]
    if lines:
        terminalreporter.section("counts")
    for line in sorted(lines):
        terminalreporter.write_line(line)
