"""A fleet whose queue, events, lease and messages are on a Redis that is reached by TLS."""

import pytest

from certificates import Authority
from fleet import Fleet
from redis import Redis, program
from server import at, now_ms, until

pytestmark = pytest.mark.skipif(not program(), reason="Redis: Debian's package redis-server is not installed")


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
