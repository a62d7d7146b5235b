"""Notifications by mail, to a real SMTP server (aiosmtpd): TLS, passwords, refusals, and what a reader of the mail sees."""

import contextlib
import email
import email.policy
import re
import socket
import ssl

import pytest

from certificates import Authority
from server import until
from test_notifications import add, fail, notifications, told

pytest.importorskip("aiosmtpd", reason="mail: python3-aiosmtpd is missing")

from aiosmtpd.controller import Controller  # noqa: E402
from aiosmtpd.smtp import AuthResult  # noqa: E402

pytestmark = pytest.mark.standalone("one node has the mail server")

HOST = "127.0.0.2"  # not among the names of this machine for which TLS is not required
PASSWORD = "pass word: ü"


class Mailbox:
    """A mail server that keeps what it gets. `replies`: what an address is answered, one after the other, before it is accepted."""

    def __init__(self, port, host=HOST, certificate=None, password=None, replies=None):
        self.mails, self.replies, self.password, self.tried = [], replies or {}, password, []
        more = {}
        if certificate:
            more["tls_context"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            more["tls_context"].load_cert_chain(certificate)
            more["require_starttls"] = True
        if password:
            more |= {"auth_required": True, "authenticator": self._authenticate}
        self.controller = Controller(self, hostname=host, port=port, **more)
        self.controller.start()

    def _authenticate(self, server, session, envelope, mechanism, data):
        return AuthResult(success=(data.login, data.password) == (b"belfry", self.password.encode()), handled=False)

    async def handle_RCPT(self, server, session, envelope, address, options):
        self.tried.append(address)
        if self.replies.get(address):
            return self.replies[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append((list(envelope.rcpt_tos), mail, session))
        return "250 OK"

    def close(self):
        self.controller.stop()


def free_port(host=HOST):
    with socket.create_server((host, 0)) as listener:
        return listener.getsockname()[1]


def with_mail(make_server, port, *arguments, host=HOST, **env):
    return make_server(*arguments, env={"BELFRY_SMTP_URL": f"smtp://{host}:{port}", "BELFRY_SMTP_FROM": "belfry@example.com",
                                        "BELFRY_NOTIFY_EMAIL_DOMAINS": "example.com", **env})


def by_mail(client, receiver, *to, **more):
    return add(client, receiver, delivery_type="EMAIL", delivery_config={"to": list(to or ("ann@example.com",))}, **more)


def test_mail_needs_tls_the_right_certificate_and_the_password(make_server, receiver, tmp_path):
    """The same address, with one server after the other behind it."""
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    names = f"IP:{HOST}"
    (tmp_path / "password").write_text(PASSWORD + "\n")
    port = free_port()
    client = with_mail(make_server, port, "--ca-file", str(authority.ca_file), BELFRY_SMTP_USER="belfry",
                       BELFRY_SMTP_PASSWORD=f"file:{tmp_path / 'password'}").client()
    setting = by_mail(client, receiver)

    def tested(**box):
        with contextlib.closing(Mailbox(port, **box)) as mailbox:
            answer = client.post(f"/v1/notification-settings/{setting['id']}/test").json
            return answer["state"], answer["error"], mailbox.mails

    state, error, mails = tested()
    assert (state, mails) == ("FAILED", []) and "STARTTLS" in error, error
    state, error, mails = tested(certificate=other.certificate("mail", names))
    assert (state, mails) == ("FAILED", []) and "certificate" in error, error
    state, error, mails = tested(certificate=authority.certificate("elsewhere", "DNS:elsewhere"))
    assert (state, mails) == ("FAILED", []) and HOST in error, error
    right = authority.certificate("mail", names)
    state, error, mails = tested(certificate=right, password="another")
    assert (state, mails) == ("FAILED", []) and "denied" in error.lower(), error
    state, error, mails = tested(certificate=right, password=PASSWORD)
    (to, mail, session), = mails
    assert (state, error, to) == ("SENT", None, ["ann@example.com"])
    assert session.ssl and session.authenticated and mail["subject"] == "Belfry: test message"


def test_a_wrong_password_can_be_mended_within_the_day(make_server, receiver, tmp_path):
    authority = Authority(tmp_path / "ca")
    port = free_port()
    with contextlib.closing(Mailbox(port, certificate=authority.certificate("mail", f"IP:{HOST}"), password=PASSWORD)):
        client = with_mail(make_server, port, "--ca-file", str(authority.ca_file), BELFRY_SMTP_USER="belfry", BELFRY_SMTP_PASSWORD="wrong").client()
        by_mail(client, receiver)
        fail(client, receiver)
        message, = until(lambda: [n for n in notifications(client) if n["error"]], why=lambda: notifications(client))
        assert (message["state"], message["http_status"]) == ("WAITING", 535) and "denied" in message["error"].lower(), message


@pytest.fixture
def mailbox():
    with contextlib.closing(Mailbox(free_port("127.0.0.1"), host="127.0.0.1")) as box:
        yield box


def test_a_reader_sees_what_happened_and_a_hostile_name_changes_nothing(make_server, receiver, mailbox):
    client = with_mail(make_server, mailbox.controller.port, host="127.0.0.1").client()
    by_mail(client, receiver, "ann@example.com", "bob@example.com", name="Ops")
    task = client.create(target_type="WORKER", queue="work", name="Übersicht\u200b\u202egnp", retry={"max_attempts": 1})["id"]
    lease = until(lambda: client.post("/v1/leases", {"queue": "work", "wait_seconds": 5}).json["leases"])[0]
    assert client.post(f"/v1/leases/{lease['id']}/fail", {"error": "boom\r\nBcc: eve@example.com\r\n\r\nKind: SUCCESS"}).status == 200
    client.wait_for(task, "FAILED")
    until(lambda: mailbox.mails, why=lambda: notifications(client))
    (to, mail, _), = mailbox.mails
    assert to == ["ann@example.com", "bob@example.com"] and mail["to"] == "ann@example.com, bob@example.com"
    assert mail["subject"] == "Belfry: 'Übersicht  gnp' failed"
    assert (mail["from"], mail["auto-submitted"], mail["bcc"]) == ("belfry@example.com", "auto-generated", None)
    assert (mail.get_content_type(), mail.get_content_charset(), mail["content-transfer-encoding"]) == ("text/plain", "utf-8", "base64")
    assert not mail.defects and mail["date"].datetime and all(len(line) <= 78 for line in mail.as_string().splitlines())
    sent = until(lambda: [n for n in notifications(client) if n["state"] == "SENT"], why=lambda: notifications(client))[0]
    assert (mail["message-id"], mail["in-reply-to"], mail["references"]) == (
        f"<{sent['id']}@example.com>", *[f"<{sent['incident']}@example.com>"] * 2)
    lines = mail.get_content().splitlines()
    assert [line for line in lines if line.startswith("Kind: ")] == ["Kind: FAILURE"]
    assert not [line for line in lines if line.startswith("Bcc")] and not {"\u202e", "\u200b"} & set(mail.get_content())
    assert lines[0] == "Reason: boom  Bcc: eve@example.com    Kind: SUCCESS" and lines[-1] == "Tenant: default"
    assert re.search(rf"^- Übersicht  gnp, queue work, of \S+ \({task}\)$", mail.get_content(), re.M)


def test_a_refused_recipient_repeats_nothing_and_a_busy_server_gets_it_again(make_server, receiver, mailbox):
    mailbox.replies = {"gone@example.com": ["550 no such user"] * 9, "ann@example.com": ["451 try again"]}
    client = with_mail(make_server, mailbox.controller.port, host="127.0.0.1").client()
    by_mail(client, receiver, "ann@example.com", filter={"name": "busy"})
    by_mail(client, receiver, "bob@example.com", "gone@example.com", filter={"name": "refused"})
    by_mail(client, receiver, "gone@example.com", filter={"name": "nobody"})
    for name in ("busy", "refused", "nobody"):
        fail(client, receiver, path="/" + name, name=name)

    def states():
        return sorted((n["state"], n["attempts"]) for n in notifications(client))
    until(lambda: states() == [("FAILED", 1), ("SENT", 1), ("SENT", 2)], why=lambda: notifications(client))
    assert sorted(to for to, _, _ in mailbox.mails) == [["ann@example.com"], ["bob@example.com"]]
    ids = {n["id"] for n in notifications(client) if n["state"] == "SENT"}
    assert {mail["message-id"] for _, mail, _ in mailbox.mails} == {f"<{i}@example.com>" for i in ids}
    failed, = [n for n in notifications(client) if n["state"] == "FAILED"]
    assert failed["http_status"] == 550 and mailbox.tried.count("bob@example.com") == 1
    assert failed["error"] == "1 of 1 recipients was refused: gone@example.com (550 no such user)"
    assert {n["error"] for n in notifications(client) if n["state"] == "SENT"} == {None, "1 of 2 recipients was refused: gone@example.com (550 no such user)"}


def test_a_mail_server_that_says_nothing_holds_up_no_other_channel(make_server, receiver):
    with socket.create_server((HOST, 0)) as silent:
        client = with_mail(make_server, silent.getsockname()[1]).client()
        for _ in range(20):  # more than there are slots
            by_mail(client, receiver)
        add(client, receiver, path="/told")
        fail(client, receiver)
        told(receiver)
        assert not [n for n in notifications(client) if n["delivery_type"] == "EMAIL" and n["state"] == "SENT"]
