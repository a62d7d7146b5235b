"""The API over TLS: who may connect, who a client is by its certificate, and how certificates are replaced while requests are under way.
The client is Python's ssl, and curl and the command line where they are documented."""

import http.client
import json
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from server import until

pytestmark = pytest.mark.standalone("TLS is a node's own")

OPENSSL_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@pytest.fixture(scope="module")
def made(build, tmp_path_factory):
    """A folder with what `belfry tls init` makes."""
    folder = tmp_path_factory.mktemp("tls") / "made"
    subprocess.run([build / "belfry", "tls", "init", folder], check=True, stdout=subprocess.PIPE)
    return folder


@pytest.fixture
def files(made, tmp_path):
    """A copy of it, which the test may change."""
    return shutil.copytree(made, tmp_path / "tls")


def issue(folder, name, alternate, days=30):
    """Another certificate of the authority, for a client."""

    def openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    (folder / f"{name}.ext").write_text(f"subjectAltName={alternate}\nextendedKeyUsage=clientAuth\n")
    openssl("req", *OPENSSL_EC, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days),
            "-extfile", f"{name}.ext", "-out", f"{name}.crt")
    return name


def renew(belfry, files):
    assert belfry("tls", "init", files, "--force").code == 0


class Caller:
    """One TLS connection."""

    def __init__(self, server, files, client=None, key=None, context=None):
        self.context = context or trusting(files, client)
        self.key = key
        self.connection = http.client.HTTPSConnection("localhost", server.port, context=self.context, timeout=20)

    def ask(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        data = json.dumps(body).encode() if body is not None else None
        self.connection.request("POST" if data else "GET", path, body=data, headers={**headers, "Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def serial(self):
        self.connection.connect()
        return self.connection.sock.getpeercert()["serialNumber"]


def trusting(files, client=None):
    context = ssl.create_default_context(cafile=files / "ca.crt")
    if client:
        context.load_cert_chain(files / f"{client}.crt", files / f"{client}.key")
    return context


@pytest.fixture
def serve(make_server):
    def start(files, *more, **env):
        return make_server("--tls-cert", files / "server.crt", "--tls-key", files / "server.key", "--tls-client-ca", files / "ca.crt", *more, **env)

    return start


def task(name="tls"):
    return {"name": name, "target_type": "NOOP", "run_at": "2035-01-01T00:00:00Z"}


# ----------------------------------------------------------------------------------------------------------------------
# connections


def test_tasks_are_created_over_tls_and_old_versions_are_refused(serve, files):
    server = serve(files)
    caller = Caller(server, files, key=server.key)
    status, made = caller.ask("/v1/tasks", task())
    assert status == 201 and caller.ask(f"/v1/tasks/{made['id']}")[0] == 200
    assert caller.connection.sock.version() == "TLSv1.3"
    context = trusting(files)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        Caller(server, files, context=context).ask("/health")
    status, metrics = caller.ask("/v1/scheduler/status")
    assert status == 200 and metrics["tls"]["enabled"] and not metrics["tls"]["plaintext"] and metrics["tls"]["reload_error"] is None


def test_plain_http_on_a_tls_port_is_told_so(serve, files):
    server = serve(files)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(b"GET /v1/tasks HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: s.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and b"use https://" in answer


def test_tls_on_a_plain_port_ends_at_once(make_server, files):
    server = make_server()
    with pytest.raises(ssl.SSLError):
        Caller(server, files).ask("/health")


def test_slow_handshakes_do_not_hold_others(serve, files):
    server = serve(files)
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(200)]
    for s in slow:
        s.sendall(b"\x16\x03\x01\x02")
    caller = Caller(server, files, key=server.key)
    for _ in range(20):
        assert caller.ask("/v1/tasks?limit=1")[0] == 200
    for s in slow:
        s.close()


# ----------------------------------------------------------------------------------------------------------------------
# client certificates


@pytest.fixture
def mapped(serve, files):
    issue(files, "reader", "URI:spiffe://here/reader,DNS:reader.example")
    issue(files, "stranger", "DNS:stranger.example")
    return serve(files, "--tls-identity", "reader=uri:spiffe://here/reader acme tasks:read",
                 "--tls-identity", "client=dns:client.belfry default tasks:read tasks:write")


def test_a_mapped_certificate_stands_for_a_tenant_and_scopes(mapped, files):
    admin = Caller(mapped, files, key=mapped.key)
    reader = Caller(mapped, files, "reader")
    status, problem = reader.ask("/v1/tasks")
    assert status == 403 and "there is no tenant 'acme'" in problem["detail"]
    assert admin.ask("/v1/tenants", {"name": "acme"})[0] == 201
    assert admin.ask("/v1/tasks", task())[0] == 201
    assert reader.ask("/v1/tasks") == (200, {"tasks": [], "next_cursor": None}) or reader.ask("/v1/tasks")[1]["tasks"] == []
    status, problem = reader.ask("/v1/tasks", task())
    assert status == 403 and "client certificate needs the scope 'tasks:write'" in problem["detail"]
    client = Caller(mapped, files, "client")
    assert client.ask("/v1/tasks", task())[0] == 201 and len(client.ask("/v1/tasks")[1]["tasks"]) == 2


def test_a_key_beside_a_certificate_must_be_of_its_tenant(mapped, files):
    admin = Caller(mapped, files, key=mapped.key)
    assert admin.ask("/v1/tenants", {"name": "acme"})[0] == 201
    for _ in range(2):  # with the key in the cache and not
        status, problem = Caller(mapped, files, "reader", key=mapped.key).ask("/v1/tasks")
        assert status == 403 and "different tenants" in problem["detail"]
    assert Caller(mapped, files, "client", key=mapped.key).ask("/v1/queues")[0] == 200  # with the scopes of the key


def test_a_certificate_without_identity_is_named(mapped, files):
    status, problem = Caller(mapped, files, "stranger").ask("/v1/tasks")
    assert status == 401 and "dns:stranger.example" in problem["detail"]
    assert Caller(mapped, files, "stranger", key=mapped.key).ask("/v1/tasks")[0] == 200


def test_a_required_certificate_is_required_and_must_be_valid(serve, files):
    issue(files, "expired", "DNS:client.belfry", days=-1)
    server = serve(files, "--tls-require-client")
    for client in (None, "expired"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Caller(server, files, client).ask("/health")
    assert Caller(server, files, "client").ask("/health")[0] == 200


# ----------------------------------------------------------------------------------------------------------------------
# replacing certificates


def test_certificates_are_replaced_under_load_without_an_error(serve, belfry, files):
    server = serve(files)
    before, wrong, stop = Caller(server, files).serial(), [], threading.Event()
    kept = Caller(server, files, key=server.key)
    assert kept.ask("/v1/tasks?limit=1")[0] == 200
    first = kept.connection.sock

    def load():
        while not stop.is_set():
            try:
                caller = Caller(server, files, key=server.key)
                for _ in range(5):
                    assert caller.ask("/v1/tasks?limit=1")[0] == 200
                caller.connection.close()
            except Exception as e:
                wrong.append(e)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(3):
        renew(belfry, files)
        server.signal(signal.SIGHUP)
    until(lambda: Caller(server, files).serial() != before, why="the new certificate is not in use")
    stop.set()
    for t in threads:
        t.join()
    assert wrong == [] and kept.ask("/v1/tasks?limit=1")[0] == 200 and kept.connection.sock is first


def test_a_changed_file_is_seen_without_a_signal(serve, belfry, files):
    server = serve(files)
    before = Caller(server, files).serial()
    renew(belfry, files)
    until(lambda: Caller(server, files).serial() != before, why="the new certificate is not in use")


def test_a_bad_pair_keeps_the_old_one_loudly(serve, belfry, files):
    server = serve(files)
    admin, before = Caller(server, files, key=server.key), Caller(server, files).serial()
    shutil.copy(files / "client.crt", files / "server.crt")
    server.signal(signal.SIGHUP)
    until(lambda: "tls_reload_failed" in server.log(), why="nothing was logged")
    assert Caller(server, files).serial() == before
    assert "is not the key of the certificate" in admin.ask("/v1/scheduler/status")[1]["tls"]["reload_error"]
    shown = belfry("status", "--ca", files / "ca.crt", env={"BELFRY_SERVER": f"https://localhost:{server.port}", "BELFRY_KEY": server.key})
    assert "Warning: the certificate could not be read again: " in shown.out and "is not the key of the certificate" in shown.out, shown
    renew(belfry, files)
    server.signal(signal.SIGHUP)
    until(lambda: admin.ask("/v1/scheduler/status")[1]["tls"]["reload_error"] is None, why="it did not recover")


# ----------------------------------------------------------------------------------------------------------------------
# start, and what is documented


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "127.example:0"])
def test_an_address_for_other_machines_needs_tls(belfry, tmp_path, listen):
    done = belfry("serve", "--listen", listen, "--data-dir", tmp_path / "data")
    assert done.code == 2 and "belfry tls init" in done.err and "api.plaintext = true" in done.err
    assert not (tmp_path / "data").exists()


def test_plaintext_is_allowed_if_it_is_asked_for_and_said(make_server, belfry):
    server = make_server("--plaintext", listen="0.0.0.0:0")
    client = server.client()
    assert "api_is_plaintext" in server.log() and client.get("/v1/scheduler/status").json["tls"]["plaintext"]
    done = belfry("status", env={"BELFRY_SERVER": f"http://127.0.0.1:{server.port}", "BELFRY_KEY": server.key})
    assert "Warning: the API speaks plain HTTP" in done.out, done
    client.close()


def test_files_that_cannot_be_used_stop_the_start(belfry, files, tmp_path):
    done = belfry("serve", "--tls-cert", files / "server.crt", "--tls-key", files / "client.key", "--data-dir", tmp_path / "data")
    assert done.code == 2 and "api.tls.key" in done.err and "is not the key of the certificate" in done.err


def test_the_commands_that_a_start_prints_work(serve, belfry, files):
    server = serve(files, "--tls-identity", "x=dns:x.example nosuch tasks:read")
    listed = next(shlex.split(line) for line in server.log().splitlines() if line.startswith("  ") and " list " in line)
    assert "--ca" in listed and belfry(*listed[1:]).code == 0, listed
    assert "tls_identity_without_tenant identity=x tenant=nosuch" in server.log()
    certificate = ["--server", f"https://localhost:{server.port}", "--ca", files / "ca.crt", "--cert", files / "client.crt", "--cert-key", files / "client.key"]
    assert belfry("list", *certificate).code == 1  # the certificate stands for nobody
    assert belfry("list", *certificate, "--data-dir", server.data_dir).code == 0


def test_a_certificate_of_another_authority_is_refused_in_plain_words(serve, belfry, files, tmp_path):
    server = serve(files)
    assert belfry("tls", "init", tmp_path / "other").code == 0
    done = belfry("list", "--server", f"https://localhost:{server.port}", "--ca", files / "ca.crt", "--cert", tmp_path / "other/client.crt",
                  "--cert-key", tmp_path / "other/client.key")
    assert done.code == 3 and "it does not accept the certificate of --cert" in done.err, done
    done = belfry("list", "--server", f"https://localhost:{server.port}", "--ca", files / "ca.crt", "--cert", files / "client.crt")
    assert done.code == 2 and "--cert-key must be a certificate and its key" in done.err, done
    until(lambda: "client_certificate_refused" in server.log(), why=server.log)


def test_swapped_files_are_told(belfry, files, tmp_path):
    done = belfry("serve", "--tls-cert", files / "server.key", "--tls-key", files / "server.crt", "--data-dir", tmp_path / "data")
    assert done.code == 2 and "perhaps the settings cert and key are swapped" in done.err and "chmod" not in done.err, done


def test_tls_init_prints_json_and_leaves_nothing_behind_if_it_fails(belfry, tmp_path):
    done = belfry("tls", "init", tmp_path / "made", "--host", "a.example", "--json")
    made = json.loads(done.out)
    assert made["ca"] == str(tmp_path / "made/ca.crt") and "a.example" in made["hosts"], done
    assert belfry("tls", "init", tmp_path / "bad", "--host", "1.2.3.4.5").code == 1
    assert list((tmp_path / "bad").iterdir()) == []


def test_what_tls_init_prints_works(belfry, make_server, tmp_path):
    folder = tmp_path / "made"
    out = belfry("tls", "init", folder, "--host", "a.example").out
    config = out[out.index("[api]"):out.index("Then, on")].replace("listen = 0.0.0.0:8443\n", "")
    (tmp_path / "belfry.conf").write_text(config)
    server = make_server("--config", tmp_path / "belfry.conf")
    commands = [line.split() for line in out.replace("localhost:8443", f"localhost:{server.port}").splitlines() if line.startswith("  ")]
    listed = belfry(*commands[0][1:])
    assert commands[0][0] == "belfry" and listed.code == 0, listed.err
    curl = subprocess.run(commands[1], capture_output=True, check=True)
    assert commands[1][0] == "curl" and json.loads(curl.stdout)["tasks"] == []
    again = belfry("tls", "init", folder)
    assert again.code == 1 and "--force" in again.err
    for name, mode in (("ca.key", 0o600), ("server.key", 0o600), ("client.key", 0o600), ("server.crt", 0o644)):
        assert (folder / name).stat().st_mode & 0o777 == mode


def test_a_renewed_certificate_keeps_its_names(belfry, tmp_path):
    first = belfry("tls", "init", tmp_path / "made", "--host", "a.example", "--host", "192.0.2.7", "--host", "2001:db8::7", "--json").out
    again = belfry("tls", "init", tmp_path / "made", "--force", "--host", "b.example", "--host", "A.example", "--json").out
    assert sorted(h.lower() for h in json.loads(again)["hosts"]) == sorted([*json.loads(first)["hosts"], "b.example"])
    (tmp_path / "made" / "server.crt").unlink()
    anew = belfry("tls", "init", tmp_path / "made", "--force", "--json").out
    assert "a.example" not in json.loads(anew)["hosts"] and "localhost" in json.loads(anew)["hosts"]


def test_the_command_line_says_what_to_do(belfry, serve, make_server, files):
    server = serve(files)
    url = f"https://localhost:{server.port}"
    done = belfry("list", "--server", url)
    assert done.code == 3 and "signed by an authority that this machine does not know: --ca FILE" in done.err
    done = belfry("list", "--server", url, "--ca", files / "ca.crt", "--data-dir", server.data_dir)
    assert done.code == 0, done.err
    done = belfry("list", "--server", url.replace("https", "http"))
    assert done.code == 1 and "use https://" in done.err
    done = belfry("list", "--server", f"https://localhost:{make_server().port}")
    assert done.code == 3 and "use http://" in done.err
