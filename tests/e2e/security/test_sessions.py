"""Sessions of browsers: who gets one, what a page of another origin, a stranger's Host or a stolen cookie can do with it, and when it ends."""

import http.client
import json
import re
import threading
import time

import pytest

from server import until
from test_front_door import checked, made_up_key

pytestmark = pytest.mark.text("sessions are in the store")

FAR = {"target_type": "NOOP", "delay": "300d"}


class Browser:
    """What a browser does: it keeps the cookie, and says which page asks. `origin` is that of the page; None: it is no browser."""

    def __init__(self, server, node=None, host=None, source="127.0.0.1"):
        self.node = node or server.turn()
        self.host = host or f"127.0.0.1:{self.node.port}"
        self.source = source
        self.cookie = self.csrf = None

    def ask(self, method, path, body=None, page="same-origin", origin=True, csrf=True, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.node.port, timeout=60, source_address=(self.source, 0))
        head = {"Host": self.host} | headers
        if self.cookie:
            head.setdefault("Cookie", f"theme=dark; {self.cookie}")
        if page:
            head["Sec-Fetch-Site"] = page
        if origin and method != "GET":
            head["Origin"] = f"http://{self.host}" if origin is True else origin
        if csrf and self.csrf and method != "GET":
            head["X-CSRF-Token"] = self.csrf if csrf is True else csrf
        if body is not None:
            head["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, head)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        self.headers = answer.headers
        return answer.status, json.loads(text) if text and "json" in answer.headers["Content-Type"] else text.decode()

    def login(self, expect=201, **body):
        status, session = self.ask("POST", "/v1/session", body)
        assert status == expect, session
        if status == 201:
            self.set_cookie = self.headers["Set-Cookie"]
            self.cookie, self.csrf = self.set_cookie.partition(";")[0], session["csrf_token"]
        return session

    def create(self, **how):
        return self.ask("POST", "/v1/tasks", FAR, **how)


@pytest.fixture
def browser(server):
    made = Browser(server)
    made.login(key=server.key)
    return made


def code_of(server, key=None):
    answer = server.client().post("/v1/session/codes", headers={"Authorization": f"Bearer {key}"} if key else None)
    assert answer.status == 201, answer
    return answer.json


# ----------------------------------------------------------------------------------------------------------------------
# in and out


def test_a_session_acts_for_its_key_until_the_logout(server, browser):
    status, session = browser.ask("GET", "/v1/session")
    assert status == 200 and session["tenant"] == "default" and session["scopes"] == ["admin"] and session["key_id"] == "admin00001"
    assert session["csrf_token"] == browser.csrf and session["expires_at"]
    name, _, rest = browser.set_cookie.partition("=")
    assert name == f"belfry_{browser.node.port}"
    assert rest.partition("; ")[2] == "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
    assert browser.create()[0] == 201
    status, _ = browser.ask("DELETE", "/v1/session")
    assert status == 204 and "Max-Age=0" in browser.headers["Set-Cookie"]
    assert browser.ask("GET", "/v1/tasks")[0] == 401
    rows = [(r["action"], r["key"], r["object"]) for r in server.client().get("/v1/audit").json["audit"]]
    session_id = browser.cookie.partition("=bf_")[2][:10]
    for action in ("POST /v1/session", "DELETE /v1/session"):
        assert (action, "admin00001", session_id) in rows, rows
    assert ("POST /v1/tasks", "admin00001") in [row[:2] for row in rows]


@pytest.mark.parametrize("by", ["key", "code"])
def test_a_login_replaces_the_session_that_the_browser_had(server, browser, by):
    old, other = browser.cookie, Browser(server, browser.node)
    other.login(key=server.key)
    browser.login(**{by: server.key if by == "key" else code_of(server)["code"]})
    assert browser.cookie != old and browser.create()[0] == 201
    stale = Browser(server, browser.node)
    stale.cookie = old
    assert stale.ask("GET", "/v1/tasks")[0] == 401
    assert other.ask("GET", "/v1/tasks")[0] == 200  # another browser's
    stale.cookie = other.cookie.partition("=")[0] + "=" + checked("bf_" + other.cookie.partition("=bf_")[2][:10] + "x" * 30)
    stale.login(key=server.key)  # who knows an id only ends nobody's session
    assert other.ask("GET", "/v1/tasks")[0] == 200
    stale.login(401, key=made_up_key())
    assert stale.ask("GET", "/v1/tasks")[0] == 200  # a login that fails ends nothing


def test_a_session_is_in_no_list_of_keys_and_no_key(server, browser):
    client = server.client()
    assert [k["id"] for k in client.get("/v1/api-keys").json["keys"]] == ["admin00001"]
    session = browser.cookie.partition("=")[2]
    assert client.get("/v1/tasks", headers={"Authorization": f"Bearer {session}"}).status == 401
    assert client.request("DELETE", f"/v1/api-keys/{session[3:13]}").status == 404
    stranger = Browser(server, browser.node)
    stranger.cookie = f"belfry_{browser.node.port}={server.key}"  # nor is a key a session
    assert stranger.ask("GET", "/v1/tasks")[0] == 401
    stranger.cookie = None
    stranger.login(401, key=session)
    stranger.login(401, code=server.key)
    stranger.login(401, key=code_of(server)["code"])


@pytest.mark.shared
def test_a_key_says_who_it_is_and_has_nothing_to_log_out_of(server):
    client = server.client()
    shown = client.get("/v1/session").json
    assert shown["tenant"] == "default" and shown["scopes"] == ["admin"] and shown["csrf_token"] is None
    assert client.request("DELETE", "/v1/session").status == 409


@pytest.mark.parametrize("body", [{}, {"key": "x", "code": "x"}, {"key": None}, {"key": 5}, {"password": "x"}, {"key": "x" * 300}])
def test_a_login_has_a_key_or_a_code(server, body):
    assert Browser(server).ask("POST", "/v1/session", body)[0] == 400


def test_wrong_keys_make_no_session_and_are_audited(server):
    browser = Browser(server)
    for wrong in ("secret", made_up_key(), server.key[:-1] + ("a" if server.key[-1] != "a" else "b")):
        browser.login(401, key=wrong)
        assert "Set-Cookie" not in browser.headers
    until(lambda: any(r["action"] == "refuse API key" for r in server.client().get("/v1/audit").json["audit"]))


# ----------------------------------------------------------------------------------------------------------------------
# other pages, other names


def test_a_page_of_another_origin_can_neither_write_nor_read(browser):
    for how in ({"page": "cross-site"}, {"page": "same-site"}, {"page": "none"}, {"page": None, "origin": "http://evil.example"},
                {"page": None, "origin": "null"}, {"page": "same-origin", "origin": "http://localhost:1"}, {"page": None, "origin": False},
                {"page": None, "origin": f"https://{browser.host}"}, {"page": "same-origin, cross-site"}):
        status, problem = browser.create(**how)
        assert status == 403 and problem["type"].endswith("cross-site-request"), how
    assert browser.ask("GET", "/v1/tasks", page="cross-site")[0] == 403
    assert browser.ask("GET", "/v1/tasks", page="same-site")[0] == 403
    assert browser.ask("GET", "/v1/tasks", page="none")[1]["tasks"] == []  # typed into the address bar
    assert browser.create(page=None)[0] == 201 and browser.create(origin=False)[0] == 201  # one of the two is enough


def test_a_write_needs_the_token_of_its_session(server, browser):
    other = Browser(server, browser.node)
    other.login(key=server.key)
    for token in (False, "", "x", browser.csrf[:-1], browser.csrf + "0", other.csrf):
        status, problem = browser.create(csrf=token)
        assert status == 403 and "X-CSRF-Token" in problem["detail"], token
    assert browser.ask("DELETE", "/v1/session", csrf=False)[0] == 403
    assert browser.create()[0] == 201


def test_a_page_of_another_origin_cannot_log_somebody_in(server):
    browser = Browser(server)
    for how in ({"page": "cross-site"}, {"page": None, "origin": "http://evil.example"}):
        assert browser.ask("POST", "/v1/session", {"key": server.key}, **how)[0] == 403
        assert "Set-Cookie" not in browser.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "127.evil.example", "192.0.2.1:{port}", "localhost.evil.example:{port}"])
def test_a_name_that_was_pointed_at_this_machine_gets_nothing(server, browser, host):
    foreign = Browser(server, browser.node, host.format(port=browser.node.port))
    foreign.cookie, foreign.csrf = browser.cookie, browser.csrf
    for method, path, body in (("GET", "/ui/", None), ("POST", "/v1/session", {"key": server.key}), ("GET", "/v1/session", None), ("POST", "/v1/tasks", FAR)):
        status, answer = foreign.ask(method, path, body)
        assert status == 421 and "Set-Cookie" not in foreign.headers and host.partition(":")[0] not in str(answer)
    assert foreign.ask("GET", "/v1/tasks", Authorization=f"Bearer {server.key}")[0] == 200  # a key may come under any name


def test_a_proxy_on_this_machine_needs_the_public_url(browser):
    for header in ("X-Forwarded-For", "Forwarded", "X-Forwarded-Host"):
        assert browser.ask("GET", "/v1/session", **{header: "192.0.2.7"})[0] == 421


def test_localhost_and_another_port_have_sessions_of_their_own(server, browser):
    other = Browser(server, browser.node, "localhost:9")  # a tunnel to this server
    other.login(key=server.key)
    assert other.set_cookie.startswith("belfry_9=") and other.create()[0] == 201
    other.cookie = browser.cookie
    assert other.ask("GET", "/v1/session")[0] == 401
    assert browser.ask("GET", "/v1/session", Cookie=f"{browser.cookie}; {browser.cookie}")[0] == 401  # one of them was not set by us


@pytest.mark.standalone("a setting of a node")
def test_under_its_public_url_the_cookie_is_for_tls_only(make_server):
    server = make_server(env={"BELFRY_API_PUBLIC_URL": "https://belfry.example.com"})
    browser = Browser(server, host="belfry.example.com")
    assert browser.ask("POST", "/v1/session", {"key": server.key}, page=None, origin="http://belfry.example.com")[0] == 403
    status, session = browser.ask("POST", "/v1/session", {"key": server.key}, origin="https://belfry.example.com", **{"X-Forwarded-For": "192.0.2.7"})
    assert status == 201, session
    cookie = browser.headers["Set-Cookie"]
    assert re.fullmatch(r"__Host-belfry=bf_\w+; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure", cookie), cookie
    browser.cookie, browser.csrf = cookie.partition(";")[0], session["csrf_token"]
    assert browser.create(origin="https://belfry.example.com")[0] == 201
    assert browser.create(origin="https://other.example.com")[0] == 403
    assert Browser(server, host="other.example.com").ask("GET", "/ui/")[0] == 421
    assert Browser(server).ask("GET", "/ui/")[0] == 200  # on this machine, too
    assert code_of(server)["url"].startswith("https://belfry.example.com/ui/#code=bf_")


@pytest.mark.parametrize("url", ["http://belfry.example.com", "belfry.example.com", "https://belfry.example.com/app", "https://", "https://Belfry.example.com", "https://a@b"])
def test_a_public_url_is_an_origin_with_tls(belfry, tmp_path, url):
    done = belfry("serve", "--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--public-url", url)
    assert done.code == 2 and "api.public_url" in done.err, done


# ----------------------------------------------------------------------------------------------------------------------
# tenants, scopes, ends


def test_a_session_sees_its_tenant_and_may_what_its_key_may(server):
    client = server.client()
    assert client.post("/v1/tenants", {"name": "acme"}).status == 201
    keys = {tenant: client.post("/v1/api-keys", {"name": f"{tenant} reader", "scopes": ["tasks:read"], "tenant": tenant}).json for tenant in ("default", "acme")}
    client.create(**FAR)
    seen = {}
    for tenant, key in keys.items():
        browser = Browser(server)
        session = browser.login(key=key["key"])
        assert session["tenant"] == tenant and session["scopes"] == ["tasks:read"] and session["name"] == f"{tenant} reader"
        seen[tenant] = len(browser.ask("GET", "/v1/tasks")[1]["tasks"])
        assert browser.create()[0] == 403 and browser.ask("GET", "/v1/api-keys")[0] == 403
    assert seen == {"default": 1, "acme": 0}
    assert client.request("PATCH", "/v1/tenants/acme", {"disabled": True}).status == 200
    assert browser.ask("GET", "/v1/tasks")[0] == 403
    Browser(server).login(403, key=keys["acme"]["key"])


def test_a_session_dies_with_its_key_on_every_node_at_once(server):
    client = server.client()
    key = client.post("/v1/api-keys", {"name": "short", "scopes": ["tasks:read", "tasks:write"]}).json
    browsers = [Browser(server) for _ in range(4)]
    for browser in browsers:
        browser.login(key=key["key"])
        assert browser.create()[0] == 201
    assert client.request("DELETE", f"/v1/api-keys/{key['id']}").status == 204
    for browser in browsers:
        assert browser.create()[0] == 401 and browser.ask("GET", "/v1/session")[0] == 401
    browsers[0].login(401, key=key["key"])


def test_a_session_ends_no_later_than_its_key(server):
    key = server.client().post("/v1/api-keys", {"name": "soon", "scopes": ["tasks:read"],
                                                "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))}).json
    browser = Browser(server)
    session = browser.login(key=key["key"])
    assert session["expires_at"] == key["expires_at"]
    assert int(re.search(r"Max-Age=(\d+)", browser.set_cookie)[1]) <= 4
    until(lambda: browser.ask("GET", "/v1/tasks")[0] == 401)


def test_sessions_live_on_when_the_server_starts_again(server):
    browser = Browser(server)
    browser.login(key=server.key)
    server.stop()
    server.start()
    again = Browser(server, host=browser.host)
    again.cookie, again.csrf = browser.cookie, browser.csrf
    assert again.create()[0] == 201


def test_a_stream_of_events_ends_with_its_session(server, browser):
    connection = http.client.HTTPConnection("127.0.0.1", browser.node.port, timeout=60)
    connection.request("GET", "/v1/events", headers={"Cookie": browser.cookie, "Sec-Fetch-Site": "same-origin", "Accept": "text/event-stream"})
    stream = connection.getresponse()
    assert stream.status == 200
    assert browser.ask("DELETE", "/v1/session")[0] == 204
    assert b"KEY_REVOKED" in stream.read()
    connection.close()


# ----------------------------------------------------------------------------------------------------------------------
# codes


def test_a_code_works_once_whoever_is_first(server):
    code = code_of(server)
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/ui/#code={code['code']}", code["url"])
    statuses, lock = [], threading.Lock()

    def race(number):
        status, _ = Browser(server, source=f"127.0.0.{100 + number}").ask("POST", "/v1/session", {"code": code["code"]})
        with lock:
            statuses.append(status)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] + [401] * 7, statuses
    Browser(server).login(401, code=code["code"])


def test_a_code_ends_with_its_key_and_is_no_way_to_stay(server, browser):
    client = server.client()
    key = client.post("/v1/api-keys", {"name": "k", "scopes": ["tasks:read"]}).json
    code = code_of(server, key["key"])["code"]
    assert client.request("DELETE", f"/v1/api-keys/{key['id']}").status == 204
    Browser(server).login(401, code=code)
    assert browser.ask("POST", "/v1/session/codes")[0] == 403  # a session would outlive its 12 hours


def test_the_eleventh_login_in_a_minute_waits(server):
    browser = Browser(server, source="127.0.0.99")
    for _ in range(10):
        browser.login(key=server.key)
    status, problem = browser.ask("POST", "/v1/session", {"key": server.key})
    assert status == 429 and problem["type"].endswith("too-many-logins") and 1 <= int(browser.headers["Retry-After"]) <= 7
    assert browser.create()[0] == 201  # those who are in stay in
    Browser(server, browser.node, source="127.0.0.98").login(key=server.key)  # another address


# ----------------------------------------------------------------------------------------------------------------------
# the command line


def test_the_command_prints_a_link_that_logs_in(server, belfry):
    where = server.url
    done = belfry("dashboard", env={"BELFRY_SERVER": where, "BELFRY_KEY": server.key})
    assert done.code == 0 and "60 s" in done.err, done
    url, code = done.out.strip().split("#code=")
    assert url == f"{where}/ui/"
    Browser(server).login(code=code)
    Browser(server).login(401, code=code)


@pytest.mark.standalone("one process prints it")
def test_serve_prints_a_link_if_told(make_server):
    server = make_server("--login-link")
    code = re.search(r"http://127\.0\.0\.1:\d+/ui/#code=(bf_\w+)", server.log())[1]
    session = Browser(server).login(code=code)
    assert session["scopes"] == ["admin"] and session["tenant"] == "default"
    server.stop()
    server.lines.clear()
    server.start()
    again = re.search(r"#code=(bf_\w+)", server.log())[1]
    assert again != code and Browser(server).login(code=again)
