"""Tasks that put messages on brokers (docs/MESSAGES.md), from the API to a real Redis. What each kind of broker gets is the runner's own suite,
tests/conformance/runner/message_runner.c."""

import json
import socket
import ssl
import threading

import pytest

from certificates import Authority
from redis import Redis
from server import until
from test_api import assert_problem
from test_tenants import Tenant

pytestmark = pytest.mark.standalone("whoever runs a task puts the message there, and a node does")


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


@pytest.fixture
def client(make_server, redis):
    return make_server("--broker", f"orders={redis.url()}").client()


def message(broker="orders", destination="reminders", **more):
    return {"target_type": "QUEUE_MESSAGE", "target_config": {"broker": broker, "destination": destination, **more}}


def executions(client, task):
    return client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]


def test_a_message_is_on_the_stream_when_its_task_is_completed(client, redis):
    task = client.create(delay="0s", payload={"order": 42}, **message(key="k", headers={"X-Team": "shop"}))
    client.wait_for(task["id"], "COMPLETED")
    words = redis.ask("XRANGE", "reminders", "-", "+").splitlines()
    fields = dict(zip(words[1::2], words[2::2]))
    assert json.loads(fields["body"]) == {"order": 42}
    assert fields["key"] == "k" and fields["X-Team"] == "shop" and fields["webhook-id"] == task["id"] and fields["Belfry-Attempt"] == "1"
    assert executions(client, task)[0]["output"] == words[0]


def test_a_broker_that_is_away_is_tried_again(make_server, redis):
    """Tenants do not learn where it is; the log says it."""
    server = make_server("--broker", f"orders={redis.url()}")
    client = server.client()
    redis.stop()
    task = client.create(delay="0s", retry={"base_delay_ms": 100, "max_delay_ms": 100, "jitter": "NONE", "max_attempts": 100},
                         **message(destination="list:later", body="hello"))
    until(lambda: client.task(task["id"])["attempts"] >= 2)
    failed = executions(client, task)[-1]
    assert failed["status"] == "FAILED" and failed["error_message"] == "could not connect"
    assert "broker_failed" in server.log() and "Redis at 127.0.0.1" in server.log()
    redis.start()
    client.wait_for(task["id"], "COMPLETED")
    elements = redis.ask("LRANGE", "later", "0", "-1").splitlines()
    assert len(elements) == 1 and json.loads(elements[0])["body"] == "hello"


def test_a_broker_that_nobody_set_up_fails_for_good(client):
    task = client.create(delay="0s", **message(broker="nowhere"))
    assert "brokers.nowhere" in client.wait_for(task["id"], "FAILED")["last_error"]
    assert client.task(task["id"])["attempts"] == 1


@pytest.mark.parametrize("config, field", [
    ({"broker": "orders"}, "target_config.destination"),
    ({"broker": "redis://u:p@host", "destination": "d"}, "target_config.broker"),
    ({"broker": "kafka://host/?ssl.ca.location=/etc/shadow", "destination": "d"}, "target_config.broker"),
    ({"broker": "orders", "destination": "d", "headers": {"Belfry-Fence": "1"}}, "target_config.headers.Belfry-Fence"),
    ({"broker": "orders", "destination": "d", "queue": "x"}, "target_config.queue"),
])
@pytest.mark.shared
def test_a_bad_config_is_refused_by_field(client, config, field):
    answer = client.post("/v1/tasks", {"delay": "1h", "target_type": "QUEUE_MESSAGE", "target_config": config})
    assert assert_problem(answer, 400)["errors"][0]["field"] == field


def test_the_command_line_makes_one(belfry, make_server, redis):
    server = make_server("--broker", f"orders={redis.url()}")
    env = {"BELFRY_SERVER": server.url, "BELFRY_KEY": server.key}
    done = belfry("add", "-q", "--message", "orders", "--destination", "list:cli", "--message-key", "k", "-H", "X-A: b", "-d", '{"n": 1}', env=env)
    assert done.code == 0, done.err
    server.client().wait_for(done.out.strip(), "COMPLETED")
    assert json.loads(redis.ask("LINDEX", "cli", "0"))["key"] == "k"
    assert "message to orders list:cli" in belfry("list", "--status", "COMPLETED", env=env).out
    for words, says in ((("--message", "orders"), "--destination"), (("--message-key", "k", "http://x"), "--message"),
                        (("--message", "o", "--destination", "d", "http://x"), "takes no URL")):
        done = belfry("add", *words, env=env)
        assert done.code == 2 and says in done.err, done.err


def test_one_tenant_does_not_take_the_connections_of_all(make_server, redis):
    """Its messages to many brokers wait for each other, and that is no attempt."""
    server = make_server("--broker", f"orders={redis.url()}")
    acme, default = Tenant(server, "acme"), server.client()
    made = [acme.create(delay="0s", retry={"max_attempts": 1}, **message(f"redis://127.0.0.1:1/{i}")).json["id"] for i in range(20)]
    mine = default.create(delay="0s", retry={"max_attempts": 1}, **message())
    default.wait_for(mine["id"], "COMPLETED")
    for task_id in made:
        task = until(lambda: (t := acme.request("GET", f"/v1/tasks/{task_id}").json)["status"] == "FAILED" and t)
        assert task["attempts"] == 1 and task["last_error"] == "could not connect"


def test_a_named_broker_is_open_to_its_tenants_and_for_its_destinations(make_server, redis):
    rules = "orders.tenants=acme", "orders.destinations=orders.*", f"own={redis.url()}"
    server = make_server("--broker", f"orders={redis.url()}", *(word for rule in rules for word in ("--broker", rule)))
    acme, zoo, default = Tenant(server, "acme"), Tenant(server, "zoo"), Tenant(server, "default")
    made = acme.create(delay="0s", **message(destination="orders.eu"))
    assert made.status == 201, made
    until(lambda: acme.request("GET", f"/v1/tasks/{made.json['id']}").json["status"] == "COMPLETED")
    for who, body, field in [(acme, message(destination="bills"), "destination"), (zoo, message(destination="orders.eu"), "broker"),
                             (default, message(destination="orders.eu"), "broker"), (acme, message("own"), "broker")]:
        assert assert_problem(who.create(delay="0s", **body), 400)["errors"][0]["field"] == f"target_config.{field}"
    assert default.create(delay="1h", **message("own")).status == 201


def test_the_runner_checks_the_rules_again(make_server, redis):
    server = make_server("--broker", f"orders={redis.url()}")
    acme = server.client().create(delay="2s", **message(destination="bills"))
    server.stop()
    server.arguments += ("--broker", "orders.destinations=orders.*")
    server.start()
    client = server.client()
    assert "destination" in client.wait_for(acme["id"], "FAILED")["last_error"]
    assert client.task(acme["id"])["attempts"] == 1 and not redis.ask("KEYS", "bills").strip()


class AmqpsListener:
    """Greets over TLS, and keeps the name that each client asked for (SNI) and the first bytes that it sent after the greeting."""

    def __init__(self, certificate):
        self.seen, self.names = [], []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.sni_callback = lambda _, name, __: self.names.append(name)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            try:
                connection.settimeout(5)
                with self.context.wrap_socket(connection, server_side=True) as secure:
                    self.seen.append(secure.recv(8))
            except OSError as e:
                self.seen.append(e)


def test_amqps_connects_to_an_address_and_checks_the_name(make_server, tmp_path):
    authority = Authority(tmp_path / "ca")
    good, other = authority.certificate("good"), authority.certificate("other", names="DNS:example.com")
    listeners = {"named": AmqpsListener(good), "addressed": AmqpsListener(good), "wrong": AmqpsListener(other)}
    hosts = {"addressed": "127.0.0.1"}
    url = lambda name: f"amqps://{hosts.get(name, 'localhost')}:{listeners[name].port}?cacert={authority.ca_file}"
    server = make_server(*(word for name in listeners for word in ("--broker", f"{name}={url(name)}")))
    client = server.client()
    tasks = {name: client.create(delay="0s", retry={"max_attempts": 1}, **message(name, "queue:q"))["id"] for name in listeners}
    for task in tasks.values():
        client.wait_for(task, "FAILED")  # nobody answers as RabbitMQ would
    hello = b"AMQP\0\0\x09\1"
    for name, names, greeted in (("named", "localhost", True), ("addressed", None, True), ("wrong", "localhost", False)):
        seen = until(lambda: listeners[name].seen, why=server.log)
        assert (seen[0] == hello) == greeted and listeners[name].names[0] == names, (name, seen, listeners[name].names)
