"""Calls over TLS and HTTP/2: whom the server trusts, what it says of those it does not, and how it uses a connection. The oracle
is the receiver's side of the connection."""

import collections
import threading

import pytest

from server import Reply, at, now_ms, until

pytest.importorskip("h2", reason="TLS and HTTP/2: python3-h2 is missing")
from tls import Authority, Http2Receiver, TlsReceiver


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
def receive(authority):
    """receive(kind, …): a receiver with a certificate of that authority; … is what is odd about it."""
    made = []

    def make(kind=TlsReceiver, by=authority, **odd):
        made.append(kind(by.certificate(f"receiver{len(made)}", **odd)))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def trusting(make_server, authority):
    """A client of a server that trusts the authority."""
    client = make_server("--ca-file", authority.ca_file).client()
    yield client
    client.close()


def failure(client, receiver, url=None):
    """What the execution of a call that must fail says."""
    target = {"target_type": "HTTP_CALLBACK", "target_config": {"url": url or receiver.url("/never")}}
    task = client.create(name="refused", retry={"max_attempts": 1}, **target)
    client.wait_for(task["id"], "FAILED")
    [execution] = client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
    assert execution["http_status"] is None and receiver.calls == []
    return execution["error_message"]


# ----------------------------------------------------------------------------------------------------------------------
# trust


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_call_to_whom_the_server_trusts_succeeds(trusting, receive, host):
    receiver = receive()
    task = trusting.create(name="tls", payload={"n": 1}, target_type="HTTP_CALLBACK", target_config={"url": receiver.url("/hook", host)})
    call = receiver.wait("/hook")[0]
    assert call.headers["host"] == f"{host}:{receiver.port}" and call.body == b'{"n": 1}' and call.id == task["id"]
    trusting.wait_for(task["id"], "COMPLETED")
    assert receiver.greetings == ["http/1.1"]


@pytest.mark.standalone("connections are a process's own")
def test_calls_one_after_the_other_share_a_greeting(trusting, receive):
    receiver = receive()
    for _ in range(10):
        trusting.wait_for(trusting.create(name="again", **receiver.target("/again"))["id"], "COMPLETED")
    assert len(receiver.to("/again")) == 10 and len(receiver.greetings) == 1


def test_the_list_of_the_environment_is_used_where_no_setting_says_otherwise(make_server, receive, authority, tmp_path):
    receiver = receive()
    client = make_server(env={"SSL_CERT_FILE": str(authority.ca_file)}).client()
    client.wait_for(client.create(name="env", **receiver.target("/env"))["id"], "COMPLETED")
    other = Authority(tmp_path / "other")
    client = make_server("--ca-file", other.ca_file, env={"SSL_CERT_FILE": str(authority.ca_file)}).client()
    receiver.calls.clear()
    assert failure(client, receiver) == "certificate is from an issuer that is not trusted"


def test_a_stranger_is_not_trusted(client, receive):
    receiver = receive()  # of an authority that this server never heard of
    assert failure(client, receiver) == "certificate is from an issuer that is not trusted"
    until(lambda: receiver.refusals, why="the receiver saw no refusal")
    assert receiver.greetings == []


@pytest.mark.parametrize("odd, says", [
    ({"names": "DNS:elsewhere.test,IP:127.0.0.9"}, "certificate is for another name"),
    ({"days": -1}, "certificate has expired"),
])
def test_a_certificate_that_does_not_fit_is_refused_and_said_why(trusting, receive, odd, says):
    assert failure(trusting, receive(**odd)) == says


def test_a_name_is_checked_as_it_stands_in_the_url(trusting, receive):
    receiver = receive(names="DNS:localhost")
    assert failure(trusting, receiver) == "certificate is for another name"  # it is not 127.0.0.1's
    target = {"target_type": "HTTP_CALLBACK", "target_config": {"url": receiver.url("/name", "localhost")}}
    trusting.wait_for(trusting.create(name="name", **target)["id"], "COMPLETED")


def test_a_failed_greeting_is_tried_again(trusting, authority, receive):
    """Until somebody has mended the certificate."""
    receiver = receive(days=-1)
    task = trusting.create(name="mended", retry={"max_attempts": 20, "base_delay_ms": 100, "max_delay_ms": 200}, **receiver.target("/mended"))
    until(lambda: receiver.refusals, why="it was not called")
    receiver.context.load_cert_chain(authority.certificate("mended"))
    receiver.wait("/mended")
    assert trusting.wait_for(task["id"], "COMPLETED")["attempts"] > 1


@pytest.mark.parametrize("text, says", [(None, "cannot be read: No such file or directory"), ("no certificate\n", "holds no certificate")])
def test_a_list_that_cannot_be_used_stops_the_start(belfry, tmp_path, text, says):
    path = tmp_path / "ca.pem"
    if text:
        path.write_text(text)
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", "--ca-file", path)
    assert done.code == 1 and "http.ca_file" in done.err and says in done.err


# ----------------------------------------------------------------------------------------------------------------------
# HTTP/2


def test_http2_is_spoken_where_it_is_offered(trusting, receive):
    receiver = receive(Http2Receiver)
    receiver.answer("/two", Reply(201, {"x-answer": "b"}, b"made"))
    task = trusting.create(name="two", **receiver.target("/two", method="PUT", headers={"X-Team": "a"}, body={"big": "x" * 100_000}))
    done = trusting.wait_for(task["id"], "COMPLETED")
    [call] = receiver.to("/two")
    assert receiver.greetings == ["h2"] and call.stream == 1
    assert (call.method, call.headers[":scheme"], call.headers[":authority"]) == ("PUT", "https", f"127.0.0.1:{receiver.port}")
    assert call.headers["x-team"] == "a" and call.id == task["id"] and len(call.body) == 100_011 and done["attempts"] == 1
    [execution] = trusting.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
    assert (execution["http_status"], execution["output"]) == (201, "made")


def all_at_once(client, receiver, count):
    """So many calls under way at the same moment: none is answered before the last has come. Returns them."""
    go = threading.Event()
    receiver.answer("/many", Reply(hold=go))
    due = at(now_ms() + 1000)
    answer = client.post("/v1/tasks/batch", [{"name": f"m{i}", "run_at": due, **receiver.target("/many")} for i in range(count)])
    assert answer.status == 201 and answer.json["created"] == count
    calls = receiver.wait("/many", count)
    go.set()
    for task in answer.json["tasks"]:
        client.wait_for(task["id"], "COMPLETED")
    assert len(receiver.to("/many")) == count
    return calls


@pytest.mark.standalone("connections are a process's own")
def test_many_calls_at_once_share_a_connection(trusting, receive):
    receiver = receive(Http2Receiver)
    # Until a receiver has said how many streams it allows, libcurl opens another connection for each hundred calls.
    trusting.wait_for(trusting.create(name="first", **receiver.target("/first"))["id"], "COMPLETED")
    calls = all_at_once(trusting, receiver, 200)
    assert {c.connection for c in calls} == {1} and len({c.stream for c in calls}) == 200 and receiver.greetings == ["h2"]


@pytest.mark.standalone("connections are a process's own")
def test_a_connection_carries_no_more_calls_than_its_receiver_allows(trusting, receive):
    receiver = receive(Http2Receiver)
    receiver.streams_max = 20
    trusting.wait_for(trusting.create(name="first", **receiver.target("/first"))["id"], "COMPLETED")  # says what is allowed
    calls = all_at_once(trusting, receiver, 60)
    assert max(collections.Counter(c.connection for c in calls).values()) == 20


@pytest.mark.standalone("connections are a process's own")
def test_neighbours_on_a_connection_do_not_notice_when_one_is_cancelled_or_late(trusting, receive):
    receiver, go, never = receive(Http2Receiver), threading.Event(), threading.Event()
    for path, event in (("/stays", go), ("/cancelled", never), ("/late", never)):
        receiver.answer(path, Reply(hold=event))
    stays = trusting.create(name="stays", **receiver.target("/stays"))
    receiver.wait("/stays")
    cancelled = trusting.create(name="cancelled", **receiver.target("/cancelled"))
    late = trusting.create(name="late", retry={"max_attempts": 1}, **receiver.target("/late", timeout_ms=300))
    receiver.wait("/cancelled")
    trusting.act(cancelled["id"], "cancel")
    trusting.wait_for(cancelled["id"], "CANCELLED")
    assert "timed out" in trusting.wait_for(late["id"], "FAILED")["last_error"]
    until(lambda: all(c.reset for path in ("/cancelled", "/late") for c in receiver.to(path)), why="their streams were not reset")
    go.set()
    assert trusting.wait_for(stays["id"], "COMPLETED")["attempts"] == 1 and len(receiver.to("/stays")) == 1
    trusting.wait_for(trusting.create(name="next", **receiver.target("/next"))["id"], "COMPLETED")
    assert receiver.greetings == ["h2"]


@pytest.mark.standalone("connections are a process's own")
@pytest.mark.parametrize("late", [False, True])
def test_a_receiver_hears_at_once_that_its_only_call_is_cancelled_or_late(trusting, receive, late):
    receiver = receive(Http2Receiver)
    receiver.answer("/only", Reply(hold=threading.Event()))
    task = trusting.create(name="only", retry={"max_attempts": 1}, **receiver.target("/only", timeout_ms=300 if late else 25000))
    call = receiver.wait("/only")[0]
    if not late:
        trusting.act(task["id"], "cancel")
    trusting.wait_for(task["id"], "FAILED" if late else "CANCELLED")
    until(lambda: call.reset, 5, why="it was not told")
    trusting.wait_for(trusting.create(name="next", **receiver.target("/next"))["id"], "COMPLETED")


@pytest.mark.standalone("connections are a process's own")
def test_slow_answers_of_http1_do_not_hold_up_the_next_call(trusting, receive):
    """Whether HTTP/2 is offered is known from the greeting, not from the first answer."""
    receiver, go = receive(), threading.Event()
    receiver.answer("/slow", Reply(hold=go))
    slow = trusting.create(name="slow", **receiver.target("/slow"))
    receiver.wait("/slow")
    for _ in range(3):
        trusting.wait_for(trusting.create(name="quick", **receiver.target("/quick"))["id"], "COMPLETED")
    assert len(receiver.greetings) == 2
    go.set()
    trusting.wait_for(slow["id"], "COMPLETED")
