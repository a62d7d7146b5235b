"""The examples of the pages about brokers and topologies, on a small fleet: one control node on its file, and a worker beside it."""

import pytest

from fleet import Worker
from server import Server, until
from test_docs_examples import follow


@pytest.fixture
def small_fleet(build, tmp_path):
    """small_fleet(url, *arguments): queue and events are there; the control node, which has heard of its worker."""
    started = []

    def make(url, *arguments):
        words = ("--queue", url, "--events", url, *arguments)
        worker = Worker(tmp_path / "worker", *words)
        node = Server(tmp_path / "data", *words)
        started.extend((worker, node))
        worker.launch()
        node.start()
        worker.listening()
        client = node.client()
        until(lambda: client.get("/v1/workers").json["workers"])
        client.close()
        return node

    yield make
    for process in started:
        process.close()


def environment(server):
    return {"BELFRY_SERVER": server.url, "BELFRY_KEY": server.key}


def test_the_examples_of_redis_messages_events_and_topologies(small_fleet, build, tmp_path):
    """On a Redis of their own: one of the examples empties it."""
    from redis import Redis, program

    if not program():
        pytest.skip("Redis: Debian's package redis-server is not installed")
    with Redis() as redis:
        node = small_fleet(redis.url(), "--broker", f"orders={redis.url()}")
        for page in ("MESSAGES", "EVENTS", "TOPOLOGIES", "REDIS"):
            follow(page, tmp_path / page, build, environment(node), {"redis://127.0.0.1": f"redis://127.0.0.1:{redis.port}"})


def test_the_examples_of_rabbitmq(small_fleet, rabbitmq_server, build, tmp_path):
    node = small_fleet(rabbitmq_server.url(prefix="docs"))
    follow("RABBITMQ", tmp_path / "page", build, environment(node), {})
