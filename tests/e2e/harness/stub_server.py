"""A scripted server with the shapes of the API: it answers what a test tells it to, and records the requests."""

import dataclasses
import http.server
import json
import re
import socket
import threading
import urllib.parse

DROP = object()  # read the request, then close the connection without a word


@dataclasses.dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: object
    connection: int  # which of the connections it came by


def problem(status, detail, errors=None, title="Refused"):
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    if errors:
        body["errors"] = [{"field": f, "message": m} for f, m in errors]
    return status, body, "application/problem+json"


class Stub:
    """stub.on("GET", "/v1/tasks", answer…): each answer once, the last one for ever. An answer is a body, a (status, body)
    or (status, body, content type), bytes as they are, DROP, or a function of the request."""

    def __init__(self):
        self.requests, self.rules = [], []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self):
                stub.answer(self)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def writes(self):
        """The requests that are no reads. Some commands ask for the queue behind them."""
        return [request for request in self.requests if request.method != "GET"]

    def on(self, method, pattern, *answers):
        self.rules.append((method, re.compile(pattern), list(answers)))

    def find(self, request):
        for method, pattern, answers in self.rules:
            if method == request.method and pattern.fullmatch(request.path):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                return answer(request) if callable(answer) and answer is not DROP else answer
        return problem(404, "there is no such route")

    def answer(self, handler):
        parts = urllib.parse.urlsplit(handler.path)
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        request = Request(handler.command, parts.path, dict(urllib.parse.parse_qsl(parts.query)), dict(handler.headers),
                          json.loads(raw) if raw else None, handler.client_address[1])
        self.requests.append(request)
        answer = self.find(request)
        if answer is DROP:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        if not isinstance(answer, tuple):
            answer = (200, answer)
        status, body, kind = (*answer, "application/json")[:3]
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        if status != 204:
            handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
