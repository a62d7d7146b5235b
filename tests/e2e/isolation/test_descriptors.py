"""A server that may open few files: its clients cannot keep its tasks from running, and what it lacks is no fault of the hosts that it calls."""

import resource
import socket
import threading

import pytest

from server import Reply, until

pytestmark = pytest.mark.standalone("the descriptors are those of one process")
LIMIT = 200
TASKS = 250  # more calls at once than it may open connections


@pytest.fixture
def few(make_server):
    server = make_server(start=False)
    server.start(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT)))
    return server


def test_clients_leave_half_of_the_descriptors_to_the_tasks(few, receiver):
    assert f"event=files_too_few limit={LIMIT}" in few.log() and f"api_connections={LIMIT // 2}" in few.log(), few.log()
    client = few.client()
    idle = []
    for _ in range(LIMIT):
        idle.append(socket.create_connection(("127.0.0.1", few.port)))
        idle[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")  # and no more
    made = [client.create(**receiver.target("/called"))["id"] for _ in range(20)]
    for task_id in made:
        assert client.wait_for(task_id, "COMPLETED")["attempts"] == 1
    for one in idle:
        one.close()
    assert "files_used_up" not in few.log()


def test_a_call_without_a_descriptor_is_held_and_costs_no_attempt(few, receiver):
    client = few.client()
    hold = threading.Event()
    receiver.answer("/slow", *[Reply(hold=hold)] * TASKS, Reply())
    answer = client.post("/v1/tasks/batch", [{"name": "slow", **receiver.target("/slow")}] * TASKS)
    made = [task["id"] for task in answer.json["tasks"]]
    until(lambda: "event=files_used_up" in few.log(), why=lambda: few.log()[-2000:])
    until(lambda: any("no file descriptor is free" in (task["last_error"] or "") for task in client.all("/v1/tasks?name=slow", "tasks")))
    hold.set()
    for task_id in made:
        assert client.wait_for(task_id, "COMPLETED")["attempts"] == 1
    assert len(receiver.to("/slow")) == TASKS
    assert client.get("/v1/breakers").json["breakers"] == []
