"""Long requests (bulk actions) on several nodes: one node does each, whoever is asked about it answers, and it outlives the node that began it."""

import pytest

from server import until

TASKS = 3000


@pytest.fixture
def cluster(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database)).settled()
    yield cluster
    cluster.stop()


def fill(client):
    bodies = [{"name": f"n{i}", "queue": "bulk", "delay": "1h", "target_type": "NOOP"} for i in range(TASKS)]
    assert client.post("/v1/tasks/batch", bodies).status == 201


def begin(client, node, action):
    answer = client.post("/v1/tasks/bulk", {"action": action, "filter": {"queue": "bulk"}}, node=node)
    assert answer.status == 202, answer
    return answer.json["id"]


def look(client, job):
    answer = client.get(f"/v1/jobs/{job}")
    assert answer.status == 200, answer
    return answer.json


def over(client, job):
    return until(lambda: (j := look(client, job))["state"] != "RUNNING" and j, why=lambda: f"it does not end: {look(client, job)}")


def test_a_job_is_done_once_though_nodes_come_while_it_runs(cluster):
    client = cluster.client()
    fill(client)
    cluster.nodes[2].stop()
    job = begin(client, cluster.nodes[0], "pause")
    until(lambda: look(client, job)["done"] > 0, why="it did not begin")
    cluster.nodes[2].start()
    done = over(client, job)
    assert (done["state"], done["done"], done["failed"]) == ("DONE", TASKS, 0), done


def test_a_job_goes_on_elsewhere_when_its_node_is_killed(cluster):
    client = cluster.client()
    fill(client)
    job = begin(client, cluster.nodes[1], "pause")
    until(lambda: look(client, job)["done"] > 0, why="it did not begin")
    cluster.nodes[1].kill()
    done = over(client, job)
    assert (done["state"], done["done"], done["failed"]) == ("DONE", TASKS, 0), done
    cluster.nodes[1].start()


def test_a_job_is_cancelled_by_whichever_node_is_asked(cluster):
    client = cluster.client()
    fill(client)
    job = begin(client, cluster.nodes[0], "pause")
    answer = client.post(f"/v1/jobs/{job}/cancel", node=cluster.nodes[1])
    assert answer.status == 202, answer
    done = over(client, job)
    assert done["state"] == "CANCELLED" and done["done"] < TASKS, done


def test_a_cancel_holds_though_the_node_that_worked_is_killed(cluster):
    client = cluster.client()
    fill(client)
    job = begin(client, cluster.nodes[1], "pause")
    answer = client.post(f"/v1/jobs/{job}/cancel", node=cluster.nodes[0])
    cluster.nodes[1].kill()
    assert answer.status == 202 and answer.json["cancelling"], answer
    done = over(client, job)
    assert done["state"] == "CANCELLED" and done["done"] < TASKS, done
    cluster.nodes[1].start()
