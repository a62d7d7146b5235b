"""SIGTERM, and being stopped and continued."""

import signal
import threading
import time

import pytest

from load import Load
from server import Reply, at, now_ms, until


@pytest.mark.cluster
def test_sigterm_under_load_loses_and_repeats_nothing(make_server, receiver, counts):
    server = make_server()
    load = Load(server, receiver, seed=1).start()
    for _ in range(8):
        seen = len(receiver.calls)
        until(lambda: len(receiver.calls) > seen + 20, why="no calls came")
        server.stop()
        server.start()
    report = load.finish()
    counts(f"SIGTERM × 8: {report}")
    server.stop()
    assert not report.wrong, "\n".join(report.wrong[:20])
    assert report.duplicated == 0 and report.lost == 0


@pytest.mark.standalone("in a cluster one node of three would have it to wait for")
def test_a_drain_waits_for_the_call_that_runs(make_server, receiver):
    hold = threading.Event()
    receiver.answer("/slow", Reply(200, hold=hold))
    server = make_server()
    client = server.client()
    task = client.create(name="slow", **receiver.target("/slow"))
    receiver.wait("/slow")
    server.signal(signal.SIGTERM)
    until(lambda: "event=stopping" in server.log(), why="it did not begin to stop")
    assert server.process.poll() is None
    hold.set()
    assert server.ended() == 0
    server.start()
    assert server.client().task(task["id"])["status"] == "COMPLETED"
    assert len(receiver.to("/slow")) == 1


@pytest.mark.cluster
def test_a_drain_gives_up_at_its_deadline_and_the_call_runs_again(make_server, receiver):
    hold = threading.Event()
    receiver.answer("/slow", Reply(200, hold=hold), Reply(200))
    server = make_server("--drain-deadline", "100ms")
    task = server.client().create(name="slow", **receiver.target("/slow"))
    receiver.wait("/slow")
    server.stop()
    server.start()
    first, second = receiver.wait("/slow", 2)[:2]
    hold.set()
    assert first.id == second.id == task["id"] and second.fence > first.fence and second.attempt == 1
    assert server.client().wait_for(task["id"], "COMPLETED")["attempts"] == 1


@pytest.mark.cluster
def test_what_is_due_in_the_arm_window_at_a_drain_fires_after_the_next_start(make_server, receiver):
    server = make_server()
    client = server.client()
    due_ms = now_ms() + 1500
    tasks = [client.create(name=f"n{i}", run_at=at(due_ms + i), **receiver.target(f"/n/{i}")) for i in range(20)]
    until(lambda: now_ms() > due_ms - 60, why="time stood still")  # claimed, not yet due
    server.stop()
    server.start()
    client = server.client()
    for i, task in enumerate(tasks):
        client.wait_for(task["id"], "COMPLETED")
        calls = receiver.to(f"/n/{i}")
        assert len(calls) == 1 and calls[0].received_ms >= int(due_ms + i)


@pytest.mark.cluster
def test_a_stopped_and_continued_process_loses_and_repeats_nothing(make_server, receiver, counts):
    server = make_server()
    load = Load(server, receiver, seed=2).start()
    for pause_s in (0.3, 1.2, 0.5, 2.0):
        seen = len(receiver.calls)
        until(lambda: len(receiver.calls) > seen + 10, why="no calls came")
        server.signal(signal.SIGSTOP)
        threading.Event().wait(pause_s)  # the fault itself
        server.signal(signal.SIGCONT)
        load.fault("SIGSTOP")
    report = load.finish()
    counts(f"SIGSTOP: {report}")
    server.stop()
    assert not report.wrong, "\n".join(report.wrong[:20])
    assert report.duplicated == 0 and report.lost == 0


@pytest.mark.standalone("nodes of a cluster beat")
def test_an_idle_server_uses_no_cpu(make_server, receiver):
    """With tasks far ahead in it, and after work: under 1 % of a core over 3 s."""
    server = make_server()
    client = server.client()
    for i in range(50):
        client.create(name=f"far {i}", delay="30d", **receiver.target("/far"))
    client.create(name="cron", cron_expression="0 0 1 1 *", **receiver.target("/far"))
    done = client.create(name="now", **receiver.target("/now"))
    client.wait_for(done["id"], "COMPLETED")
    client.close()

    def cpu_ticks():
        fields = open(f"/proc/{server.process.pid}/stat").read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def quiet():  # checkpoints and the like come a little after work
        before = cpu_ticks()
        began = time.monotonic()
        threading.Event().wait(3)
        return (cpu_ticks() - before) / (time.monotonic() - began)  # ticks are hundredths of a second: percent

    used = [quiet()]
    if used[0] >= 1:
        used.append(quiet())
    assert min(used) < 1, f"{used} % of a core"
    server.stop()
