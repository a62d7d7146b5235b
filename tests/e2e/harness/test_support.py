"""What the tests stand on does what it says: wires that can be cut, PostgreSQL servers that fall and take over, and a judge of answers."""

import json
import socket
import socketserver
import threading
import time

import pytest

import openapi
import passed_tests
from server import Answer

SOON_S = 0.3  # in which silence is believed


class Echo(socketserver.ThreadingTCPServer):
    """Answers each line with itself, and remembers it."""

    allow_reuse_address = daemon_threads = True

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.server.lines.append(line)
                self.wfile.write(line)
            self.server.ended.set()

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Echo.Handler)
        self.lines, self.ended = [], threading.Event()
        self.handle_error = lambda *_: None  # connections break off: that is what is tested
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def echo():
    with Echo() as server:
        yield server
        server.shutdown()


@pytest.fixture
def wire(wires, echo):
    return wires.new(echo.server_address[1])


def connect(wire):
    return socket.create_connection(("127.0.0.1", wire.port), timeout=10)


def say(connection, text):
    connection.sendall(text + b"\n")
    return connection.recv(1000)


def is_silent(connection):
    connection.settimeout(SOON_S)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(10)
    return True


def test_a_wire_passes_everything(wire):
    with connect(wire) as c:
        assert say(c, b"hello") == b"hello\n"
        big = b"x" * 1_000_000
        c.sendall(big + b"\n")
        got = b""
        while len(got) < len(big) + 1:
            got += c.recv(1 << 20)
        assert got == big + b"\n"


def test_a_reset_is_felt_at_once_and_new_connections_pass(wire):
    with connect(wire) as old:
        say(old, b"hello")
        wire.reset()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
    with connect(wire) as new:
        assert say(new, b"again") == b"again\n"


def test_a_wire_that_refuses_is_the_same_wire_when_it_is_healed(wire):
    with connect(wire) as old:
        say(old, b"hello")
        wire.refuse()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(wire)
    wire.heal()
    with connect(wire) as new:
        assert say(new, b"again") == b"again\n"


def test_what_is_dropped_is_silent_for_good(wire, echo):
    with connect(wire) as old:
        say(old, b"before")
        wire.drop()
        old.sendall(b"lost\n")
        with connect(wire) as new:
            new.sendall(b"lost too\n")
            assert is_silent(old) and is_silent(new)
            wire.heal()
            old.sendall(b"still lost\n")
            assert is_silent(old) and is_silent(new)
            with connect(wire) as fresh:
                assert say(fresh, b"after") == b"after\n"
    assert echo.lines == [b"before\n", b"after\n"]


def test_a_server_is_not_told_that_the_client_of_a_dropped_connection_went(wire, echo):
    with connect(wire) as old:
        say(old, b"before")
        wire.drop()
    assert not echo.ended.wait(SOON_S)


def test_a_delay_is_felt_both_ways(wire):
    with connect(wire) as c:
        say(c, b"hello")
        wire.delay(100)
        began = time.monotonic()
        assert say(c, b"slow") == b"slow\n"
        assert time.monotonic() - began >= 0.2
        wire.heal()
        began = time.monotonic()
        say(c, b"fast")
        assert time.monotonic() - began < 0.15


def test_a_request_goes_through_and_its_answer_is_lost_once(wire, echo):
    with connect(wire) as c:
        say(c, b"hello")
        wire.lose()
        c.sendall(b"do it\n")
        with pytest.raises(ConnectionResetError):
            c.recv(1)
    assert echo.lines == [b"hello\n", b"do it\n"] and wire.state()["lost"] == 1
    with connect(wire) as new:
        assert say(new, b"again") == b"again\n"


def test_the_answer_that_is_lost_can_be_chosen(wire, echo):
    with connect(wire) as c:
        wire.lose(b"COMMIT")
        assert say(c, b"BEGIN") == b"BEGIN\n"
        c.sendall(b"COMMIT\n")
        with pytest.raises(ConnectionResetError):
            c.recv(1)
    assert echo.lines == [b"BEGIN\n", b"COMMIT\n"]


# ----------------------------------------------------------------------------------------------------------------------
# PostgreSQL


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_what_was_committed_is_there_after_a_restart(postgres, database, how):
    postgres.sql("CREATE TABLE t AS SELECT 1 AS n", database)
    postgres.restart(how)
    assert postgres.sql("SELECT n FROM t", database) == ["1"]


def test_a_promoted_standby_has_what_was_committed_and_the_old_server_can_follow_it():
    from postgres import Postgres

    with Postgres() as first:
        database = first.new_database()
        first.sql("CREATE TABLE t (n int)", database)
        second = first.standby()
        try:
            for n in range(5):
                first.sql(f"INSERT INTO t VALUES ({n})", database)
            assert second.sql("SELECT pg_is_in_recovery()") == ["t"]
            first.stop("immediate")
            second.promote()
            second.sql("INSERT INTO t VALUES (5)", database)
            assert second.sql("SELECT count(*) FROM t", database) == ["6"]
            first.follow(second)
            assert first.sql("SELECT count(*), pg_is_in_recovery() FROM t", database) == ["6|t"]
        finally:
            second.close()


# ----------------------------------------------------------------------------------------------------------------------
# the judge of answers

WORKER = {"id": "01920000-0000-7000-8000-000000000001", "name": "w", "version": "1", "state": "alive", "slots": 1, "running": 0,
          "joined_at": "2026-01-01T00:00:00.000Z", "seen_at": "2026-01-01T00:00:00.000Z", "about": {}}
PROBLEM = {"type": "urn:belfry:problem:not-found", "title": "Not found", "status": 404, "detail": "there is no such worker"}


def judge(body, status=200, path=f"/v1/workers/{WORKER['id']}", kind="application/json"):
    openapi.check("GET", path, Answer(status, {"content-type": kind}, json.dumps(body).encode()))


def test_an_answer_as_described_passes():
    judge(WORKER)
    judge(PROBLEM, 404, kind="application/problem+json")
    judge(PROBLEM, 404, "/v1/nothing", "application/problem+json")


@pytest.mark.parametrize("planted, says", [
    (lambda: judge({**WORKER, "colour": "red"}), "colour"),
    (lambda: judge({k: v for k, v in WORKER.items() if k != "slots"}), "slots"),
    (lambda: judge({**WORKER, "state": "asleep"}), "state"),
    (lambda: judge({**WORKER, "seen_at": "2026-01-01T00:00:00Z"}), "seen_at"),
    (lambda: judge({**WORKER, "name": None}), "name"),
    (lambda: judge(WORKER, 202), "the status is not described"),
    (lambda: judge(WORKER, kind="text/plain"), "media type"),
    (lambda: judge(WORKER, path="/v1/nothing"), "the route is not described"),
    (lambda: judge({**PROBLEM, "type": "urn:belfry:problem:new"}, 404, kind="application/problem+json"), "type"),
    (lambda: judge({**PROBLEM, "status": 503}, 503, kind="application/problem+json"), "retry-after is missing"),
])
def test_an_answer_that_is_not_as_described_is_caught(planted, says):
    with pytest.raises(openapi.Mismatch, match=says):
        planted()


def test_load_is_judged_by_the_first_answer_of_each_kind():
    first = openapi.FirstAnswers()
    answer = Answer(200, {"content-type": "application/json"}, json.dumps(WORKER).encode())
    wrong = Answer(200, {"content-type": "application/json"}, b"{}")
    with pytest.raises(openapi.Mismatch):
        first.check("GET", f"/v1/workers/{WORKER['id']}", wrong)
    first.check("GET", f"/v1/workers/{WORKER['id']}", answer)
    first.check("GET", f"/v1/workers/{WORKER['id']}", wrong)


# ----------------------------------------------------------------------------------------------------------------------
# what has passed


def test_a_test_has_passed_if_all_of_it_has_and_its_last_run_counts(tmp_path):
    class Report:
        def __init__(self, nodeid, when, outcome):
            self.nodeid, self.when, self.outcome = nodeid, when, outcome

    path = tmp_path / "passed"
    runs = [("t.py::good", "passed", "passed"), ("t.py::bad", "failed", "passed"), ("t.py::left", "passed", "failed"), ("t.py::left[a b]", "skipped", "passed"),
            ("t.py::mended", "failed", "passed"), ("t.py::mended", "passed", "passed"), ("t.py::broken", "passed", "passed"), ("t.py::broken", "failed", "passed")]
    for name, call, teardown in runs:
        plugin = passed_tests.Passed(path)
        for when, outcome in (("setup", "passed"), ("call", call), ("teardown", teardown)):
            plugin.pytest_runtest_logreport(Report(name, when, outcome))
        plugin.pytest_unconfigure()
    assert passed_tests.read(path) == {"t.py::good", "t.py::mended"}
    assert passed_tests.read(None) == set()
