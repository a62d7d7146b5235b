"""The API behind nginx and HAProxy. Both refuse /v1/queues; a request for it that is hidden in another one must not get past them."""

import selectors
import shutil
import socket
import subprocess

import pytest

import framing
from server import TIMEOUT_S, until

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream api {{ server 127.0.0.1:{server}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port};
        location /v1/queues {{ return 403; }}
        location / {{
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_request_buffering off;
        }}
    }}
}}
"""

HAPROXY = """
defaults
    mode http
    timeout connect 10s
    timeout client 10s
    timeout server 10s
frontend clients
    bind 127.0.0.1:{port}
    http-request deny if {{ path_beg /v1/queues }}
    default_backend api
backend api
    http-reuse always
    server api 127.0.0.1:{server}
"""

PROXIES = {"nginx": (NGINX, ["nginx", "-c"]), "haproxy": (HAPROXY, ["haproxy", "-db", "-f"])}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)


def can_connect(port):
    try:
        connect(port).close()
        return True
    except ConnectionRefusedError:
        return False


@pytest.fixture(params=PROXIES)
def proxy(request, server, tmp_path):
    """The port of a proxy in front of the server."""
    text, command = PROXIES[request.param]
    program = shutil.which(command[0], path="/usr/sbin:/usr/bin")
    assert program, f"{command[0]} is not installed: scripts/install-deps test"
    port = free_port()
    file = tmp_path / "proxy.conf"
    file.write_text(text.format(folder=tmp_path, server=server.port, port=port))
    process = subprocess.Popen([program, *command[1:], file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: can_connect(port))
    yield port
    process.kill()
    process.wait()


def send_all(port, requests):
    """Each on a connection of its own, all at once. Returns what came for each until all are closed or a second is silent."""
    connections = [connect(port) for _ in requests]
    got = [b""] * len(requests)
    with selectors.DefaultSelector() as selector:
        for i, connection in enumerate(connections):
            connection.sendall(requests[i])
            selector.register(connection, selectors.EVENT_READ, i)
        while selector.get_map() and (ready := selector.select(1)):
            for key, _ in ready:
                try:
                    chunk = key.fileobj.recv(65536)
                except ConnectionResetError:
                    chunk = b""
                got[key.data] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
    for connection in connections:
        connection.close()
    return got


def ask(port, path):
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    return send_all(port, [request])[0]


@pytest.mark.standalone("the proxy has one server behind it")
def test_no_hidden_request_gets_past_a_proxy(server, proxy):
    client = server.client()
    shown, refused = framing.hidden_request(server.key, "shown"), framing.hidden_request(server.key, "refused")
    send_all(server.port, [shown])
    assert client.get("/v1/queues/shown").status == 200  # a hidden request leaves this trace
    assert b" 403 " in send_all(proxy, [refused])[0] and client.get("/v1/queues/refused").status == 404
    requests = [dict(framing.cases(framing.hidden_request(server.key, f"hidden-{i}"), server.key))[what] for i, what in enumerate(framing.NAMES)]
    answers = send_all(proxy, requests)
    assert sum(b"HTTP/1.1 " in answer for answer in answers) > len(answers) // 2
    for _ in range(8):  # connections to the server that the proxy keeps: their next answers belong to these requests
        assert b" 200 " in ask(proxy, "/health") and b'"ok"' in ask(proxy, "/health")
    names = [queue["name"] for queue in client.get("/v1/queues?limit=100").json["queues"]]
    assert not [framing.NAMES[int(name.removeprefix("hidden-"))] for name in names if name.startswith("hidden-")]
    client.close()
