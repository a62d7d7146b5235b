"""Fleets whose brokers ask for client certificates: Redis alone, then RabbitMQ (which takes the user from the certificate) and Kafka."""

import os
import subprocess

import pytest

import kafka
import rabbitmq
from certificates import Authority
from fleet import Fleet
from redis import Redis, program
from server import at, now_ms, until

@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
def secure_redis(authority):
    """It asks clients for a certificate."""
    authority.certificate("client", "DNS:client.test")
    with Redis(tls=authority) as server:
        server.ask("CONFIG", "SET", "tls-auth-clients", "yes")
        yield server


def address(server, authority, **parameters):
    return server.url(cert=authority.folder / "client.pem", key=authority.folder / "client.key", **parameters)


@pytest.mark.skipif(not program(), reason="Redis: Debian's package redis-server is not installed")
def test_a_fleet_works_over_tls(postgres, build, tmp_path, authority, secure_redis, receiver):
    database = postgres.new_database()
    url = address(secure_redis, authority, prefix="fleet")
    fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", url, "--events", url, "--broker", f"cache={url}"), "--lease", url,
                  nodes=1, workers=1)
    try:
        client = fleet.start().client()
        task = client.create(run_at=at(now_ms() + 200), **receiver.target("/hello"))
        receiver.wait("/hello")
        client.wait_for(task["id"], "COMPLETED")
        (execution,) = client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
        assert execution["worker"].endswith(f":{fleet.workers[0].process.pid}"), execution
        message = client.create(target_type="QUEUE_MESSAGE", target_config={"broker": "cache", "destination": "orders", "body": {"n": 1}})
        client.wait_for(message["id"], "COMPLETED")
        assert secure_redis.ask("XLEN", "orders") == "1"
        secure_redis.restart()
        secure_redis.ask("CONFIG", "SET", "tls-auth-clients", "yes")
        again = client.create(run_at=at(now_ms() + 200), **receiver.target("/again"))
        until(lambda: client.get(f"/v1/tasks/{again['id']}").json["status"] == "COMPLETED", why=fleet.log)
    finally:
        fleet.close()
        postgres.start().drop_database(database)


@pytest.mark.skipif(not os.environ.get("BELFRY_TEST_LONG"), reason="starts a RabbitMQ and a Kafka of its own")
@pytest.mark.skipif(not rabbitmq.installed(), reason="RabbitMQ: Debian's package rabbitmq-server is not installed")
@pytest.mark.skipif(not kafka.classpath(), reason="Kafka: java and mvn fetch it")
def test_rabbitmq_and_kafka_know_clients_by_their_certificates(postgres, build, tmp_path, authority, receiver):
    for name in ("belfry", "stranger"):
        authority.certificate(name, f"DNS:{name}.test")
    database = postgres.new_database()
    with rabbitmq.RabbitMQ(authority=authority) as rabbit, kafka.Kafka(tls=authority) as broker:
        rabbit.add_user("belfry")
        queue, events = rabbit.certificate_url(authority, "belfry", prefix="fleet"), broker.tls_url("belfry", prefix="fleet")
        fleet = Fleet(tmp_path / "fleet", postgres.url(database), ("--queue", queue, "--events", events, "--broker", f"orders={events}"),
                      nodes=1, workers=1)
        try:
            client = fleet.start().client()
            task = client.create(run_at=at(now_ms() + 200), **receiver.target("/hello"))
            receiver.wait("/hello")
            client.wait_for(task["id"], "COMPLETED")
            assert client.get("/v1/scheduler/status").json["tls"]["unverified_links"] == []
        finally:
            fleet.close()
            postgres.start().drop_database(database)
        stranger = [build / "belfry", "worker", "--queue", rabbit.certificate_url(authority, "stranger"), "--events", events]
        log = tmp_path / "stranger.log"
        with open(log, "wb") as errors, subprocess.Popen(stranger, stderr=errors) as worker:
            try:
                until(lambda: "Login was refused using authentication mechanism EXTERNAL" in log.read_text(), why=log.read_text)
            finally:
                worker.kill()
