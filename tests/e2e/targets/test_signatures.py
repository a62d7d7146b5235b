"""Calls, messages and notifications are signed with the keys of their tenant (docs/SIGNATURES.md). PyPI's standardwebhooks judges v1,
Debian's cryptography v1a."""

import base64
import glob
import json
import random
import sys
import threading
import time

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from cluster import LONG
from conftest import ROOT
from redis import Redis, program
from server import Reply, until
from test_api import assert_problem
from test_tenants import Tenant

pytestmark = pytest.mark.tenant

sys.path += [path for path in glob.glob(str(ROOT / "build-python/lib/python3*/site-packages")) if path not in sys.path]

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
KEYS = "/v1/signing-keys"
BODIES = 10000 if LONG else 200
CALLS = 300 if LONG else 10  # after each step of a rotation
MIB = 1 << 20
LETTERS = ((0x20, 0x7e), (0x01, 0x1f), (0x22, 0x2f), (0x7f, 0xff), (0x100, 0xd7ff), (0xe000, 0xffff), (0x10000, 0x10ffff))
needs_redis = pytest.mark.skipif(not program(), reason="Redis: Debian's package redis-server is not installed")


@pytest.fixture
def webhook():
    try:
        from standardwebhooks import Webhook
    except ImportError:
        pytest.skip("standardwebhooks: scripts/install-python-tools could not install it, or was not run")
    return Webhook


def add(client, **body):
    answer = client.post(KEYS, body)
    assert answer.status == 201, answer
    assert answer.headers["location"] == f"{KEYS}/{answer.json['id']}"
    return answer.json


def rotate(client, key, **body):
    answer = client.post(f"{KEYS}/{key['id']}/rotate", body)
    assert answer.status == 200, answer
    return answer.json


def signatures(headers):
    return headers["webhook-signature"].split(" ")


def signed(headers, body):
    return f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body


def holds(secret, headers, body):
    """Whether the secret has signed this, computed here."""
    import hashlib
    import hmac

    mac = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed(headers, body), hashlib.sha256).digest()
    return "v1," + base64.b64encode(mac).decode() in signatures(headers)


def holds_v1a(public_key, headers, body):
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    for one in signatures(headers):
        if one.startswith("v1a,"):
            try:
                key.verify(base64.b64decode(one.removeprefix("v1a,")), signed(headers, body))
                return True
            except InvalidSignature:
                pass
    return False


def call(client, receiver, path, **more):
    """Runs a task, and returns its call."""
    task = client.create(delay="0s", **receiver.target(path, **more))
    client.wait_for(task["id"], "COMPLETED")
    return receiver.wait(path)[-1]


# ---- what is signed ----


def some_value(rng, depth=0):
    kind = rng.randrange(6 if depth < 3 else 4)
    if kind == 4:
        return [some_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {some_text(rng, 8): some_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [None, rng.random() < 0.5, rng.randrange(-10**9, 10**9), some_text(rng, 200)][kind]


def some_text(rng, longest):
    low, high = rng.choice(LETTERS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(longest)))


def random_calls(client, receiver, rng, count):
    """So many calls, each with the body that was asked for. The first ones have no byte, and a MiB of them."""
    bodies = ["", "\x01" * MIB, "€" * (MIB // 3)] + [some_value(rng) for _ in range(count - 3)]
    asked = {}
    while bodies:
        batch, bodies = bodies[:1 if len(bodies) > count - 3 else 100], bodies[1 if len(bodies) > count - 3 else 100:]
        answer = client.post("/v1/tasks/batch", [{"delay": "0s", **receiver.target("/random", body=body)} for body in batch])
        assert answer.status == 201, answer
        asked.update(zip((task["id"] for task in answer.json["tasks"]), batch))
    calls = receiver.wait("/random", count, timeout_s=600 if LONG else 60)
    assert {c.id for c in calls} == set(asked) and len(calls) == count
    for one in calls:
        body = asked[one.id]
        assert body is None or (one.body == body.encode() if isinstance(body, str) else json.loads(one.body) == body)
    return calls


@pytest.mark.heavy
def test_calls_with_random_bodies_are_signed_by_both_algorithms(client, receiver):
    rng = random.Random(18)
    key = add(client, secret=SECRET)
    pair = rotate(client, key, algorithm="ED25519")
    for one in random_calls(client, receiver, rng, BODIES):
        assert holds(SECRET, one.headers, one.body) and holds_v1a(pair["public_key"], one.headers, one.body)
        assert not holds(OTHER, one.headers, one.body) and not holds(SECRET, one.headers, one.body + b"x")
        assert not holds_v1a(pair["public_key"], one.headers, one.body + b"x")


def test_the_public_library_accepts_calls_with_random_bodies(client, receiver, webhook):
    key = add(client, name="default")
    judge = webhook(key["secret"])
    for one in random_calls(client, receiver, random.Random(19), BODIES // 10):
        judge.verify(one.body, one.headers, json_parse=False)


def test_a_call_without_a_key_has_no_signature(client, receiver):
    assert "webhook-signature" not in call(client, receiver, "/none").headers
    key = add(client, secret=SECRET)
    assert "secret" not in key
    assert "webhook-signature" in call(client, receiver, "/some").headers
    assert client.request("DELETE", f"{KEYS}/{key['id']}").status == 204
    assert "webhook-signature" not in call(client, receiver, "/none").headers


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT"])
def test_a_call_without_a_body_is_signed_over_an_empty_one(client, receiver, method):
    add(client, secret=SECRET)
    one = call(client, receiver, "/" + method, method=method)
    assert one.body == b"" and holds(SECRET, one.headers, b"")


def test_attempts_have_one_id_and_signatures_of_their_own(client, receiver):
    add(client, secret=SECRET)
    receiver.answer("/again", Reply(503), Reply(503), Reply(200))
    task = client.create(delay="0s", retry={"max_attempts": 3, "base_delay_ms": 1100, "jitter": "NONE", "backoff": "FIXED"},
                         **receiver.target("/again", body="x"))
    client.wait_for(task["id"], "COMPLETED")
    calls = receiver.wait("/again", 3)
    assert {c.id for c in calls} == {task["id"]} and all(holds(SECRET, c.headers, c.body) for c in calls)
    assert len({c.headers["webhook-timestamp"] for c in calls}) == 3 == len({c.headers["webhook-signature"] for c in calls})


def test_steps_and_compensations_are_signed(client, receiver):
    add(client, secret=SECRET)
    receiver.answer("/fails", Reply(400))
    steps = [{"name": "a", "compensate": receiver.target("/undo", body={"undo": {"$ref": "/input/n"}}), **receiver.target("/do", body={"n": {"$ref": "/input/n"}})},
             {"name": "b", "depends_on": ["a"], "retry": {"max_attempts": 1}, **receiver.target("/fails")}]
    run = client.post("/v1/workflows", {"definition": {"steps": steps}, "input": {"n": 7}})
    assert run.status == 201, run
    for path, body in (("/do", {"n": 7}), ("/undo", {"undo": 7})):
        one, = receiver.wait(path)
        assert json.loads(one.body) == body and holds(SECRET, one.headers, one.body)


def test_a_task_cannot_give_a_signature_itself(client, receiver):
    for name in ("webhook-signature", "Webhook-Id", "WEBHOOK-TIMESTAMP"):
        answer = client.post("/v1/tasks", {"delay": "1h", **receiver.target("/x", headers={name: "v1,AAAA"})})
        assert assert_problem(answer, 400)["errors"][0]["field"] == f"target_config.headers.{name}"


@pytest.mark.standalone("whoever runs a task puts the message there, and a node does")
@needs_redis
def test_messages_are_signed(make_server):
    with Redis() as redis:
        client = make_server("--broker", f"orders={redis.url()}").client()
        add(client, secret=SECRET)
        by_host = add(client, host="127.0.0.1", secret=OTHER)
        address = redis.url().split("?")[0]
        for broker, destination, secret in (("orders", "named", SECRET), (address, "address", OTHER)):
            task = client.create(delay="0s", payload={"order": 42}, target_type="QUEUE_MESSAGE",
                                 target_config={"broker": broker, "destination": destination})
            client.wait_for(task["id"], "COMPLETED")
            words = redis.ask("XRANGE", destination, "-", "+").splitlines()
            fields = dict(zip(words[1::2], words[2::2]))
            assert fields["webhook-id"] == task["id"] and holds(secret, fields, fields["body"].encode()), (by_host, fields)


# ---- keys ----


@pytest.mark.text("no task runs")
def test_keys_are_made_listed_and_removed_without_showing_secrets(client):
    made = add(client, name="default")
    assert made["secret"].startswith("whsec_") and len(base64.b64decode(made["secret"][6:])) == 32
    assert (made["algorithm"], made["host"], made["public_key"], made["older"], made["version"]) == ("HMAC_SHA256", None, None, [], 1)
    pair = add(client, name="pair", algorithm="ED25519", host="*.Example.com")
    assert "secret" not in pair and pair["public_key"].startswith("whpk_") and pair["host"] == "*.example.com"
    shown = client.get(KEYS)
    assert {k["name"]: k for k in shown.json["signing_keys"]} == {"default": {k: v for k, v in made.items() if k != "secret"}, "pair": pair}
    assert made["secret"].encode() not in shown.body and b"whsk_" not in shown.body and b"enc:" not in shown.body
    one = client.get(f"{KEYS}/{made['id']}")
    assert one.headers["etag"].startswith('"1') and "secret" not in one.json
    assert add(client, host="2001:DB8:0:0:0:0:0:1")["host"] == "2001:db8::1"
    for host in ({}, {"host": None}, {"host": "*.EXAMPLE.com"}, {"host": "2001:db8::1"}, {"host": "2001:db8:0::0:1"}):
        assert "already" in assert_problem(client.post(KEYS, host), 409)["detail"]
    assert client.request("DELETE", f"{KEYS}/{made['id']}").status == 204
    assert_problem(client.get(f"{KEYS}/{made['id']}"), 404)
    assert_problem(client.request("DELETE", f"{KEYS}/{made['id']}"), 404)
    assert_problem(client.post(f"{KEYS}/{made['id']}/rotate"), 404)
    assert add(client)["id"] == made["id"]


@pytest.mark.text("no task runs")
def test_a_repeated_request_makes_one_key_and_does_not_show_its_secret_again(client):
    first = client.post(KEYS, {"name": "a"}, key="one")
    again = client.post(KEYS, {"name": "a"}, key="one")
    assert first.status == again.status == 201 and first.json["secret"]
    assert again.json == {k: v for k, v in first.json.items() if k != "secret"}


@pytest.mark.text("no task runs")
def test_of_requests_that_make_the_same_key_at_once_one_wins(server):
    answers = []

    def make():
        answers.append(server.client().post(KEYS, {"host": "api.example.com"}).status)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201] + [409] * 5


REFUSED = {
    "algorithm": ({"algorithm": "RSA"}, "algorithm"),
    "short secret": ({"secret": "whsec_YQ=="}, "secret"),
    "alphabet of URLs": ({"secret": "whsec_" + "-_" * 20}, "secret"),
    "public key": ({"secret": "whpk_" + "A" * 43 + "="}, "secret"),
    "other algorithm": ({"secret": SECRET, "algorithm": "ED25519"}, "algorithm"),
    "pair that is none": ({"secret": "whsk_" + base64.b64encode(bytes(64)).decode()}, "secret"),
    "empty host": ({"host": ""}, "host"),
    "port": ({"host": "example.com:80"}, "host"),
    "scheme": ({"host": "https://example.com"}, "host"),
    "star alone": ({"host": "*"}, "host"),
    "star inside": ({"host": "a.*.com"}, "host"),
    "star of addresses": ({"host": "*.0.0.1"}, "host"),
    "unknown": ({"hosts": ["a"]}, "hosts"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.shared
def test_bad_keys_are_refused_by_field(client, name):
    body, field = REFUSED[name]
    assert assert_problem(client.post(KEYS, body), 400)["errors"][0]["field"] == field


def test_the_key_for_the_host_signs_before_the_default_one(client, receiver):
    add(client, secret=SECRET)
    add(client, host="127.0.0.2", secret=OTHER)
    one = call(client, receiver, "/a")
    assert holds(SECRET, one.headers, one.body)
    exact = add(client, host="127.0.0.1", secret=OTHER)
    one = call(client, receiver, "/b")
    assert holds(OTHER, one.headers, one.body) and len(signatures(one.headers)) == 1
    assert client.request("DELETE", f"{KEYS}/{exact['id']}").status == 204
    one = call(client, receiver, "/c")
    assert holds(SECRET, one.headers, one.body)


def test_an_imported_pair_signs_as_ed25519(client, receiver):
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    for host, text in (("127.0.0.1", bytes(range(32)) + public), (None, bytes(range(32)))):
        key = add(client, host=host, secret="whsk_" + base64.b64encode(text).decode())
        assert key["algorithm"] == "ED25519" and key["public_key"] == "whpk_" + base64.b64encode(public).decode()
    one = call(client, receiver, "/pair", body="hello")
    assert holds_v1a(key["public_key"], one.headers, b"hello") and not holds_v1a(key["public_key"], one.headers, b"hallo")


def test_after_a_rotation_both_sign_until_the_overlap_is_over(client, receiver):
    key = add(client, secret=SECRET)
    assert rotate(client, key, secret=OTHER, overlap="2s")["older"][0]["algorithm"] == "HMAC_SHA256"
    one = call(client, receiver, "/both")
    assert holds(SECRET, one.headers, one.body) and holds(OTHER, one.headers, one.body) and len(signatures(one.headers)) == 2
    until(lambda: client.get(f"{KEYS}/{key['id']}").json["older"] == [])
    one = call(client, receiver, "/new")
    assert holds(OTHER, one.headers, one.body) and len(signatures(one.headers)) == 1
    pair = rotate(client, key, algorithm="ED25519")
    one = call(client, receiver, "/kinds")
    assert holds_v1a(pair["public_key"], one.headers, one.body) and holds(OTHER, one.headers, one.body)
    third = rotate(client, key)
    assert third["algorithm"] == "ED25519" and [o["public_key"] for o in third["older"]] == [pair["public_key"], None]
    one = call(client, receiver, "/three")
    assert len(signatures(one.headers)) == 3 and holds_v1a(third["public_key"], one.headers, one.body)
    assert holds_v1a(pair["public_key"], one.headers, one.body) and holds(OTHER, one.headers, one.body)
    refusal = assert_problem(client.post(f"{KEYS}/{key['id']}/rotate", {"overlap": "1s"}), 409)["detail"]
    assert "sign already" in refusal and "overlap 0s" in refusal and min(o["signs_until"] for o in third["older"]) in refusal
    last = rotate(client, key, overlap="0s", secret=SECRET)
    assert last["older"] == [] and last["algorithm"] == "HMAC_SHA256"
    one = call(client, receiver, "/last")
    assert holds(SECRET, one.headers, one.body) and len(signatures(one.headers)) == 1


@pytest.mark.text("no task runs")
def test_a_short_overlap_does_not_cut_the_one_before(client):
    key = add(client, secret=SECRET)
    first, = rotate(client, key, secret=OTHER, overlap="24h")["older"]
    new, old = rotate(client, key, overlap="1h")["older"]
    assert old == first and new["signs_until"] < old["signs_until"] and new["rotated_at"] >= old["rotated_at"]


class Traffic(threading.Thread):
    """Creates tasks that call the receiver, one after the other, and notes when each was asked for."""

    def __init__(self, server, receiver):
        super().__init__(daemon=True)
        self.client, self.receiver = server.client(), receiver
        self.asked, self.ending = {}, threading.Event()

    def run(self):
        while not self.ending.is_set():
            began = time.monotonic()
            self.asked[self.client.create(delay="0s", **self.receiver.target("/traffic", body={"n": len(self.asked)}))["id"]] = began

    def calls_since(self, began, count):
        """Of tasks that were asked for since then, once there are so many."""
        asked = lambda: [c for c in self.receiver.to("/traffic") if self.asked.get(c.id, 0) >= began]
        until(lambda: len(asked()) >= count, why=lambda: f"{len(asked())} calls")
        return asked()

    def end(self):
        self.ending.set()
        self.join()
        return self.receiver.wait("/traffic", len(self.asked))


@pytest.mark.cluster(when="always")
def test_a_rotation_under_traffic_has_no_call_that_a_receiver_refuses(make_server, receiver, counts):
    """A receiver that has the old secret only, and one that has only the new one since the rotation was answered, accept all calls."""
    server = make_server()
    client, secrets = server.client(), ["whsec_" + base64.b64encode(random.randbytes(32)).decode() for _ in range(4)]
    key = add(client, secret=secrets[0])
    traffic = Traffic(server, receiver)
    traffic.start()
    for n, overlap in ((1, "1h"), (2, "1h"), (3, "0s")):
        before = receiver.to("/traffic")
        assert all(holds(secrets[0], c.headers, c.body) for c in before)
        rotate(client, key, secret=secrets[n], overlap=overlap)
        since = traffic.calls_since(time.monotonic(), CALLS)
        signers = secrets[:n + 1] if n < 3 else secrets[3:]
        assert all([holds(s, c.headers, c.body) for s in secrets] == [s in signers for s in secrets] for c in since)
        assert all(len(signatures(c.headers)) == len(signers) for c in since)
    assert client.request("DELETE", f"{KEYS}/{key['id']}").status == 204
    since = traffic.calls_since(time.monotonic(), CALLS)
    assert not any("webhook-signature" in c.headers for c in since)
    calls = traffic.end()
    signed_calls = [c for c in calls if "webhook-signature" in c.headers]
    assert all(any(holds(s, c.headers, c.body) for s in secrets) for c in signed_calls)
    counts(f"rotation under traffic: {len(calls)} calls, {len(signed_calls)} signed, 0 refused")


@pytest.mark.own_server
def test_tenants_have_keys_of_their_own(server, receiver):
    a, b = Tenant(server, "a"), Tenant(server, "b")
    made = a.request("POST", KEYS, {"name": "mine", "secret": SECRET}).json
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
        assert_problem(b.request(method, f"{KEYS}/{made['id']}{path}"), 404)
    assert b.request("GET", KEYS).json["signing_keys"] == []
    setting = {"on_failure": True, "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": receiver.url("/x"), "signing_key": made["id"]}}
    refused = assert_problem(b.request("POST", "/v1/notification-settings", setting), 400)
    assert refused["errors"][0]["field"] == "delivery_config.signing_key" and "no signing key" in refused["errors"][0]["message"]
    for name, found in (("mine", made["id"]), ("min", None)):
        body = {**setting, "delivery_config": {"url": receiver.url("/x"), "signing_key": name}}
        answer = a.request("POST", "/v1/notification-settings", body)
        assert answer.json["delivery_config"]["signing_key"] == found if found else assert_problem(answer, 400)
    for tenant in (a, b):
        assert tenant.create(delay="0s", **receiver.target("/" + tenant.name)).status == 201
    assert "webhook-signature" not in receiver.wait("/b")[0].headers
    one, = receiver.wait("/a")
    assert holds(SECRET, one.headers, one.body)
    assert b.request("POST", KEYS, {"secret": OTHER}).json["id"] != made["id"]
    reads = Tenant(server, "c", scopes=("signing-keys:read",))
    assert reads.request("GET", KEYS).status == 200
    assert_problem(reads.request("POST", KEYS, {}), 403)


# ---- at rest ----


@pytest.mark.standalone("files of the store are searched")
def test_a_secret_is_in_no_file_and_no_later_answer(make_server, receiver, belfry, tmp_path):
    server = make_server()
    client = server.client()
    made = client.post(KEYS, {}, key="once").json
    secrets = [made["secret"], SECRET]
    rotate(client, made, secret=SECRET)
    answers = [client.post(KEYS, {}, key="once"), client.get(KEYS), client.get(f"{KEYS}/{made['id']}"), client.get("/v1/audit")]
    task = client.create(delay="0s", **receiver.target("/signed"))["id"]
    client.wait_for(task, "COMPLETED")
    answers += [client.get(f"/v1/tasks/{task}"), client.get(f"/v1/tasks/{task}/executions"), client.get("/metrics")]
    one, = receiver.wait("/signed")
    assert all(holds(secret, one.headers, one.body) for secret in secrets)
    assert belfry("backup", str(tmp_path / "copy"), "--data-dir", str(server.data_dir)).code == 0
    server.stop()
    texts = [p.read_bytes() for p in [*server.data_dir.rglob("*"), tmp_path / "copy"] if p.is_file()]
    texts += [a.body for a in answers] + [server.log().encode()]
    for secret in secrets:
        assert not any(secret.removeprefix("whsec_").encode() in text for text in texts)


@pytest.mark.standalone("the key file of one node is rotated")
def test_a_rotated_key_file_encrypts_keys_again(make_server, receiver, belfry):
    server = make_server()
    client = server.client()
    rotate(client, add(client, secret=SECRET), secret=OTHER)
    server.stop()
    assert belfry("secrets", "rotate", "--data-dir", str(server.data_dir)).code == 0
    server.start()
    client = server.client()
    until(lambda: not client.get("/v1/scheduler/status").json["secrets"]["older_keys"], timeout_s=40, why=server.log)
    one = call(client, receiver, "/cached")
    assert holds(SECRET, one.headers, one.body) and holds(OTHER, one.headers, one.body)
    server.stop()
    key_file = server.data_dir / "secrets.key"
    first = next(line for line in key_file.read_text().splitlines() if not line.startswith("#"))
    key_file.write_text(first + "\n")
    server.start()
    one = call(server.client(), receiver, "/again")
    assert holds(SECRET, one.headers, one.body) and holds(OTHER, one.headers, one.body)


@pytest.mark.standalone("one node is killed")
def test_a_kill_in_a_rotation_leaves_the_old_secret_or_the_new_one(make_server, receiver):
    server = make_server()
    key = add(server.client(), secret=SECRET)
    rng, last = random.Random(3), SECRET
    for round_ in range(3):
        tried, client = [], server.client()
        killer = threading.Timer(rng.uniform(0.02, 0.15), server.kill)
        killer.start()
        try:
            while True:
                tried.append("whsec_" + base64.b64encode(rng.randbytes(32)).decode())
                rotate(client, key, secret=tried[-1], overlap="0s")
                last = tried[-1]
        except (OSError, AssertionError):
            pass
        killer.join()
        server.start()
        one = call(server.client(), receiver, f"/round{round_}")
        assert len(signatures(one.headers)) == 1
        last, = [s for s in (last, tried[-1]) if holds(s, one.headers, one.body)][:1]


# ---- fleets ----


def test_workers_of_a_fleet_sign_and_one_without_the_key_file_says_so(make_fleet, receiver, belfry, tmp_path):
    keys = tmp_path / "secrets.key"
    assert belfry("secrets", "init", "--key-file", str(keys)).code == 0
    fleet = make_fleet(nodes=1, workers=1, env=[{"BELFRY_SECRETS_KEY_FILE": str(keys)}])
    client, worker = fleet.client(), fleet.workers[0]
    key = add(client, secret=SECRET)
    made = client.create(delay="0s", **receiver.target("/late"))["id"]
    until(lambda: "secrets_key_missing" in worker.log(), why=worker.log)
    until(lambda: "which secrets.key_file lacks here" in (client.task(made)["last_error"] or ""))
    assert "signing_key needs key" in client.task(made)["last_error"] and client.task(made)["attempts"] == 0
    assert not receiver.to("/late")
    fleet.add_worker(env={"BELFRY_SECRETS_KEY_FILE": str(keys)})
    worker.stop()
    client.wait_for(made, "COMPLETED")
    one, = receiver.wait("/late")
    assert holds(SECRET, one.headers, one.body)
    pair = rotate(client, key, algorithm="ED25519")
    one = call(client, receiver, "/rotated", body={"a": 1})
    assert holds(SECRET, one.headers, one.body) and holds_v1a(pair["public_key"], one.headers, one.body)
    rotate(client, key, overlap="0s", secret=OTHER)
    one = call(client, receiver, "/ended", body="text")
    assert holds(OTHER, one.headers, one.body) and len(signatures(one.headers)) == 1
    assert client.request("DELETE", f"{KEYS}/{key['id']}").status == 204
    assert "webhook-signature" not in call(client, receiver, "/none").headers


# ---- notifications ----


def test_a_notification_setting_names_a_key_in_place_of_a_secret(client, receiver):
    key = add(client, name="hooks", host="127.0.0.1", secret=SECRET)
    config = {"url": receiver.url("/told"), "signing_key": key["id"]}
    setting = {"name": "ops", "on_failure": True, "delivery_type": "HTTP_WEBHOOK", "delivery_config": config}
    path = "/v1/notification-settings"
    both = assert_problem(client.post(path, {**setting, "delivery_config": {**config, "secret": OTHER}}), 400)
    assert both["errors"][0]["field"] == "delivery_config.signing_key"
    nobody = {**config, "signing_key": "00000000-0000-8000-8000-000000000000"}
    assert_problem(client.post(path, {**setting, "delivery_config": nobody}), 400)
    made = client.post(path, setting)
    assert made.status == 201 and made.json["delivery_config"] == config
    path += "/" + made.json["id"]
    pair = rotate(client, key, algorithm="ED25519")
    assert client.post(path + "/test").json["state"] == "SENT"
    one, = receiver.wait("/told")
    assert holds(SECRET, one.headers, one.body) and holds_v1a(pair["public_key"], one.headers, one.body)
    assert "names it" in assert_problem(client.request("DELETE", f"{KEYS}/{key['id']}"), 409)["detail"]
    changed = client.request("PATCH", path, {"delivery_config": {"signing_key": None, "secret": OTHER}})
    assert changed.status == 200 and changed.json["delivery_config"] == {"url": config["url"], "secret": "***"}
    assert client.post(path + "/test").json["state"] == "SENT"
    one = receiver.wait("/told", 2)[1]
    assert holds(OTHER, one.headers, one.body) and len(signatures(one.headers)) == 1
    assert client.request("DELETE", f"{KEYS}/{key['id']}").status == 204


def test_a_notification_setting_names_a_key_for_its_host(client):
    keys = {host: add(client, name=host, host=host)["id"] for host in ("hooks.example.com", "*.example.org", "2001:db8::1")} | {None: add(client, name="all")["id"]}
    path, setting = "/v1/notification-settings", {"on_failure": True, "delivery_type": "HTTP_WEBHOOK"}

    def answer(host, url, **more):
        return client.post(path, {**setting, "delivery_config": {"url": url, "signing_key": keys[host]}, **more})
    for host, url in (("hooks.example.com", "https://HOOKS.example.com:8443/x"), ("*.example.org", "https://a.example.org/"), (None, "https://x.example.com/"),
                      ("2001:db8::1", "https://[2001:db8:0:0:0:0:0:1]:443/")):
        assert answer(host, url).status == 201, (host, url)
    for host, url in (("hooks.example.com", "https://example.com/"), ("*.example.org", "https://example.org/"), ("2001:db8::1", "https://[2001:db8::2]/")):
        problem = assert_problem(answer(host, url), 400)["errors"][0]
        assert problem["field"] == "delivery_config.signing_key" and host in problem["message"] and "make a key for this host" in problem["message"]
    made = answer("hooks.example.com", "https://hooks.example.com/x").json
    moved = {"delivery_config": {"url": "https://other.example.com/x"}}
    assert_problem(client.request("PATCH", f"{path}/{made['id']}", moved), 400)
    assert client.request("PATCH", f"{path}/{made['id']}", {"after": 2}).status == 200
    step = {"after": "5m", "delivery_type": "HTTP_WEBHOOK", "delivery_config": {"url": "https://other.example.com/", "signing_key": "hooks.example.com"}}
    assert_problem(answer(None, "https://x.example.com/", steps=[step]), 400)


# ---- the command line ----


@pytest.mark.standalone("the command line asks one server")
@pytest.mark.own_server
def test_keys_by_the_command_line(server, client, belfry, tmp_path):
    where = ("--server", server.url, "--data-dir", str(server.data_dir))
    assert "there are no signing keys" in belfry("signing-keys", "list", *where).err
    made = belfry("signing-keys", "add", "default", *where)
    assert made.code == 0 and made.out.startswith("whsec_") and "printed only once" in made.err, made
    (tmp_path / "secret").write_text(SECRET + "\n")
    imported = belfry("signing-keys", "add", "partner", "--host", "*.example.com", "--secret", f"file:{tmp_path}/secret", *where)
    assert imported.code == 0 and imported.out == "" and SECRET not in imported.err
    rotated = belfry("signing-keys", "rotate", "partner", "--algorithm", "ed25519", "--overlap", "48h", *where)
    assert rotated.code == 0 and rotated.out.startswith("whpk_"), rotated
    listed = belfry("signing-keys", "list", *where).out
    assert "*.example.com" in listed and "ED25519" in listed and "all others" in listed and "whsec_" not in listed
    rows = [json.loads(line) for line in belfry("signing-keys", "list", "--json", *where).out.splitlines()]
    assert {r["name"]: len(r["older"]) for r in rows} == {"default": 0, "partner": 1}
    shown = belfry("signing-keys", "show", "partner", *where).out
    assert next(r for r in rows if r["name"] == "partner")["older"][0]["signs_until"][:10] in listed, listed
    assert all(word in shown for word in ("Older secret", "HMAC_SHA256", "Rotated", "Signs until", rotated.out.strip())), shown
    assert belfry("signing-keys", "remove", "partner", *where).code == 0
    assert belfry("signing-keys", "remove", "partner", *where).code == 1
    assert [k["name"] for k in client.get(KEYS).json["signing_keys"]] == ["default"]


def headers_of(one):
    return ("--id", one.headers["webhook-id"], "--timestamp", one.headers["webhook-timestamp"], "--signature", one.headers["webhook-signature"])


def test_verify_says_whether_a_signature_holds_and_why_not(client, receiver, belfry, tmp_path):
    key = add(client, secret=SECRET)
    pair = rotate(client, key, algorithm="ED25519")
    one = call(client, receiver, "/verify", body={"amount": 12.5, "to": "Zoë"})
    (tmp_path / "body").write_bytes(one.body)
    file, how = str(tmp_path / "body"), headers_of(one)
    for name, value in (("--secret", SECRET), ("--key", pair["public_key"])):
        done = belfry("verify", name, value, *how, file)
        assert (done.code, done.out, done.err) == (0, "valid\n", ""), done
    assert belfry("verify", "--secret", SECRET, *how, stdin=one.body.decode()).code == 0
    assert belfry("verify", "--json", "--secret", SECRET, *how, file).out == '{"valid":true}\n'
    wrong = belfry("verify", "--json", "--secret", OTHER, *how, file)
    assert wrong.code == 1 and json.loads(wrong.out) == {"valid": False, "reason": "wrong_signature"} and "not by this key" in wrong.err
    assert belfry("verify", "--secret", SECRET, *how, stdin="changed").code == 1
    only_v1 = how[:-1] + (signatures(one.headers)[1],)
    assert "no signature v1a" in belfry("verify", "--key", pair["public_key"], *only_v1, file).err
    old = (how[0], how[1], "--timestamp", "1600000000", *how[4:])
    assert "not by this key" in belfry("verify", "--secret", SECRET, *old, file).err
    until(lambda: belfry("verify", "--secret", SECRET, "--tolerance", "1s", *how, file).code == 1)
    late = belfry("verify", "--secret", SECRET, "--tolerance", "1s", *how, file)
    assert "in the past, outside --tolerance" in late.err, late
    for usage in ((), ("--secret", SECRET, "--key", pair["public_key"], *how), ("--secret", "whsec_YQ==", *how), ("--key", SECRET, *how),
                  ("--secret", SECRET, "--id", "x", "--timestamp", "soon", "--signature", "v1,x"), ("--secret", SECRET, *how[2:])):
        assert belfry("verify", *usage, file).code == 2, usage
