"""The store's commits stall, as on a disk that does. What a user is told of a change is true all the same."""

import re
import threading
import time

import pytest

from server import Reply, at, now_ms, until

STALL = {"BELFRY_FAILPOINT": "stall=1500ms/4s"}
PERIOD_S, STALL_S = 4, 1.5
AHEAD = re.compile(r"^belfry_tasks_ahead (\d+)$", re.M)


def wait_for_stall(into_s):
    """Stalls begin at multiples of the period, by the steady clock."""
    time.sleep((into_s - time.monotonic()) % PERIOD_S)


def claimed_ahead(server, client):
    return sum(int(AHEAD.search(client.get("/metrics", node=node).body.decode())[1]) for node in server.nodes)


def changed(server, task_id, answers, action, **more):
    client = server.client()
    began = time.monotonic()
    answer = client.post(f"/v1/tasks/{task_id}/{action}", timeout_s=15, **more)
    answers[task_id] = answer, time.monotonic() - began
    client.close()


@pytest.mark.cluster
@pytest.mark.parametrize("action, becomes", [("cancel", "CANCELLED"), ("pause", "PAUSED")])
def test_a_change_of_a_claimed_task_is_told_truly_while_the_store_stalls(make_server, receiver, action, becomes):
    """They are claimed ahead, and due after the stall: none has fired, so each change is made, and the answer says so."""
    server = make_server(env=STALL)
    client = server.client()
    wait_for_stall(STALL_S + 0.2)
    due_ms = now_ms() + 4200  # 0.4 s after the end of the next stall
    path = f"/{action}"
    made = [client.create(name=path, run_at=at(due_ms), **receiver.target(path))["id"] for _ in range(9)]
    until(lambda: claimed_ahead(server, client) == len(made), why="they are not claimed before the stall")
    wait_for_stall(0.1)
    answers = {}
    threads = [threading.Thread(target=changed, args=(server, i, answers, action)) for i in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert now_ms() < due_ms, "too slow: this test shows nothing"
    assert [a.status for a, _ in answers.values()] == [200] * len(made), answers
    assert {a.json["status"] for a, _ in answers.values()} == {becomes}
    assert max(took for _, took in answers.values()) > 0.6, "nothing waited for the stall: this test shows nothing"
    until(lambda: now_ms() > due_ms + 1500)
    assert not receiver.to(path), "what was acknowledged started all the same"
    server.stop()


@pytest.mark.standalone("the node itself knows that the task runs")
def test_a_cancel_of_a_running_task_does_not_wait_for_the_stall_to_learn_that(make_server, receiver):
    server = make_server(env=STALL)
    client = server.client()
    hold = threading.Event()
    receiver.answer("/runs", Reply(hold=hold))
    wait_for_stall(STALL_S + 0.2)
    task = client.create(name="runs", delivery="AT_LEAST_ONCE", **receiver.target("/runs"))["id"]
    receiver.wait("/runs")
    wait_for_stall(0.1)
    answers = {}
    changed(server, task, answers, "pause")
    answer, took = answers[task]
    hold.set()
    assert answer.status == 409 and answer.json["type"].endswith("running"), answer
    assert took < 0.7
    server.stop()
