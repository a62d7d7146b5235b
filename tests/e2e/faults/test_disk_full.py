"""A disk that is full: on a file system of a few megabytes of our own, which takes root."""

import os

import pytest

from server import Server, until
from small_disk import fill, small_disk  # noqa: F401


@pytest.fixture
def full_server(build, small_disk):
    server = Server(small_disk / "data").start()
    yield server
    server.close()


def test_a_full_disk_refuses_and_recovers_by_itself(full_server, small_disk, receiver, counts):
    server, client = full_server, full_server.client()
    acknowledged = {}
    body = "x" * 2000

    def create(i):
        answer = client.post("/v1/tasks", {"name": f"n{i}", "delay": "3s", "payload": {"text": body}, **receiver.target(f"/n/{i}")},
                             key=f"k{i}")
        if answer.status == 201:
            acknowledged[i] = answer.json["id"]
        return answer

    for i in range(20):
        assert create(i).status == 201
    fill(small_disk)
    refused = 0
    for i in range(20, 1000):
        answer = create(i)
        if answer.status != 201:
            assert answer.status == 503, answer
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) >= 1
            refused += 1
            if refused == 5:
                break
    assert refused == 5, "the disk never became full"
    assert client.get("/health").status == 200
    assert client.get("/v1/tasks").status == 200, "reading goes on"
    counts(f"disk full: {len(acknowledged)} acknowledged before and while it was full, {refused} refused")

    # What falls due while it is full cannot be claimed or settled. Some calls may be out already, none may be repeated.
    os.unlink(small_disk / "ballast")
    after = len(acknowledged) + refused + 100
    until(lambda: create(after).status == 201, why="it does not recover")
    for task_id in acknowledged.values():
        client.wait_for(task_id, "COMPLETED")
    for i in acknowledged:
        assert len(receiver.to(f"/n/{i}")) == 1, i
    names = {t["name"] for t in client.all("/v1/tasks")}
    assert names >= {f"n{i}" for i in acknowledged}
    refused_calls = [c.path for c in receiver.calls if int(c.path.rpartition("/")[2]) not in acknowledged]
    assert refused_calls == [], "what was refused ran all the same"
    server.stop()


def test_calls_that_end_while_the_disk_is_full_are_settled_when_space_returns(full_server, small_disk, receiver):
    server, client = full_server, full_server.client()
    tasks = [client.create(name=f"n{i}", delay="500ms", **receiver.target(f"/n/{i}"))["id"] for i in range(30)]
    fill(small_disk)
    try:
        until(lambda: len(receiver.calls) >= 1 or "failed" in server.log(), why="nothing was tried")
    finally:
        os.unlink(small_disk / "ballast")
    for i, task_id in enumerate(tasks):
        assert client.wait_for(task_id, "COMPLETED")["attempts"] == 1
        assert len(receiver.to(f"/n/{i}")) == 1
    server.stop()


def test_a_kill_on_a_full_disk_keeps_what_was_acknowledged(full_server, small_disk, receiver):
    server, client = full_server, full_server.client()
    tasks = [client.create(name=f"n{i}", delay="2s", **receiver.target(f"/n/{i}"))["id"] for i in range(20)]
    fill(small_disk)
    server.kill()
    os.unlink(small_disk / "ballast")
    server.start()
    client = server.client()
    for i, task_id in enumerate(tasks):
        client.wait_for(task_id, "COMPLETED")
        assert len(receiver.to(f"/n/{i}")) == 1
    server.stop()
