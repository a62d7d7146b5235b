"""A development aid for the dashboard: serves src/dashboard at /ui/ with the real content security policy, passes /v1 on to a real
belfry with a bearer key, and answers /v1/session itself: any page of any server, while you write.

    python3 tests/e2e/dashboard/proxy.py --server http://127.0.0.1:8080 --key file:data/admin.key [--listen 127.0.0.1:8081]

A change of a file is seen at the next reload. The tests use what the server serves.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import pathlib
import secrets
import threading
import urllib.parse

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "src/dashboard"
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
       "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml"}
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def problem(self, status, detail):
        self.answer(status, json.dumps({"type": "about:blank", "title": detail, "status": status, "detail": detail}).encode(),
                    "application/problem+json")

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path in ("/", "/ui"):
            return self.answer(302, headers=[("Location", "/ui/")])
        if path.startswith("/ui/"):
            return self.asset(path)
        return self.forward()

    do_POST = do_PATCH = do_PUT = do_DELETE = lambda self: self.forward()

    def asset(self, path):
        parts = path[len("/ui/"):].split("/", 1)
        file = FOLDER / "index.html" if parts == [""] else FOLDER / parts[-1]
        if not (file.is_file() and file.resolve().is_relative_to(FOLDER)):
            return self.problem(404, "no such file")
        body = file.read_bytes()
        if parts == [""]:
            body = body.replace(b"{hash}", b"dev")
        kind = TYPES.get(pathlib.PurePath(path).suffix if parts != [""] else ".html", "application/octet-stream")
        self.answer(200, body, kind, [("Content-Security-Policy", CSP), ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff"),
                                      ("Referrer-Policy", "no-referrer")])

    # -----------------------------------------------------------------------------------------------------------------
    # /v1

    def cookie(self):
        for part in self.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == "belfry_dev":
                return self.server.proxy.sessions.get(value)
        return None

    def session(self, body):
        proxy = self.server.proxy
        if self.command == "POST":
            key = proxy.key if body.get("code") == "once" else body.get("key", "")
            if not proxy.knows(key):
                return self.problem(401, "the key is not valid")
            token = secrets.token_urlsafe(24)
            proxy.sessions[token] = {"key": key, "csrf_token": secrets.token_urlsafe(24)}
            return self.answer(200, proxy.session_of(token), headers=[("Set-Cookie", f"belfry_dev={token}; HttpOnly; SameSite=Strict; Path=/")])
        found = self.cookie()
        if not found:
            return self.problem(401, "there is no session")
        token = next(t for t, s in proxy.sessions.items() if s is found)
        if self.command == "DELETE":
            del proxy.sessions[token]
            return self.answer(204)
        return self.answer(200, proxy.session_of(token))

    def forward(self):
        proxy = self.server.proxy
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        path = urllib.parse.urlsplit(self.path).path
        if path == "/v1/session":
            return self.session(json.loads(body or b"{}"))
        found = self.cookie()
        if not found:
            return self.problem(401, "log in first")
        if self.command != "GET" and self.headers.get("X-CSRF-Token") != found["csrf_token"]:
            return self.problem(403, "the CSRF token is missing or wrong")
        where = urllib.parse.urlsplit(proxy.server)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=120)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() in ("content-type", "accept", "if-match", "idempotency-key", "last-event-id")}
        headers["Authorization"] = "Bearer " + found["key"]
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            if "event-stream" in response.headers.get("Content-Type", ""):
                return self.stream(response)
            data = response.read()
        except OSError as error:
            return self.problem(503, f"the server cannot be reached: {error}")
        finally:
            connection.close()
        kept = [(n, v) for n, v in response.headers.items() if n.lower() in ("etag", "location", "retry-after")]
        return self.answer(response.status, data, response.headers.get("Content-Type", "application/json"), kept)

    def stream(self, response):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):  # the reader has gone
            while chunk := response.read1(65536):
                self.wfile.write(chunk)
                self.wfile.flush()


class Proxy:
    def __init__(self, server, key, listen=("127.0.0.1", 0)):
        self.server, self.key = server, key
        self.sessions = {}
        self.http = http.server.ThreadingHTTPServer(listen, Handler)
        self.http.daemon_threads = True
        self.http.proxy = self
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)

    def ask(self, key, path):
        where = urllib.parse.urlsplit(self.server)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=20)
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, text

    def knows(self, key):
        return bool(key) and key.isascii() and self.ask(key, "/v1/queues?limit=1")[0] != 401

    def session_of(self, token):
        """What /v1/session answers. The scopes of a key are asked for with the key of the proxy, which is an admin's."""
        session = self.sessions[token]
        keys = json.loads(self.ask(self.key, "/v1/api-keys?limit=1000")[1])["keys"]
        found = next(k for k in keys if session["key"].startswith("bf_" + k["id"]))
        return json.dumps({"tenant": found["tenant"], "name": found["name"], "scopes": found["scopes"], "csrf_token": session["csrf_token"]}).encode()

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--key", required=True, help="an API key, or file:PATH")
    parser.add_argument("--listen", default="127.0.0.1:8081")
    given = parser.parse_args()
    key = pathlib.Path(given.key[5:]).read_text(encoding="utf-8").strip() if given.key.startswith("file:") else given.key
    host, _, port = given.listen.rpartition(":")
    proxy = Proxy(given.server, key, (host, int(port))).start()
    print(f"{proxy.url}/ui/#code=once", flush=True)
    proxy.thread.join()


if __name__ == "__main__":
    main()
