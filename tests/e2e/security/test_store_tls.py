"""PostgreSQL on another machine: who it is is checked unless the operator chose otherwise. The other machine is this one, by an address that
is not loopback."""

import os
import shutil
import subprocess

import pytest

from certificates import Authority
from postgres import PASSWORD_IN_URL, Postgres, binaries

pytestmark = pytest.mark.skipif(not binaries(), reason="PostgreSQL: Debian's package postgresql is not installed")


def own_address():
    found = [a for a in subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split() if ":" not in a]
    return found[0] if found else None


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def far(authority):
    """A server that speaks TLS, on an address that is not loopback; far.address."""
    address = own_address()
    if not address:
        pytest.skip("this machine has no address but loopback")
    with Postgres(settings={"listen_addresses": f"127.0.0.1,{address}"}) as server:
        authority.certificate("postgres", f"IP:{address}")
        for kind in ("key", "pem"):
            file = server.folder / f"tls.{kind}"
            shutil.copy(authority.folder / f"postgres.{kind}", file)
            file.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(file, "postgres", "postgres")
        with open(server.data / "pg_hba.conf", "a", encoding="utf-8") as who:
            who.write(f"host all all {address}/32 trust\n")
        server.settings |= {"ssl_cert_file": server.folder / "tls.pem", "ssl_key_file": server.folder / "tls.key"}
        server.address = address
        yield server


@pytest.fixture
def url_of(far):
    """url_of(parameters, ssl="on", host=…): of a new database."""
    made = []

    def make(parameters="", ssl="on", host=None):
        if far.settings.get("ssl") != ssl:
            far.settings["ssl"] = ssl
            far.restart()
        made.append(far.new_database())
        return f"postgres://belfry:{PASSWORD_IN_URL}@{host or far.address}:{far.port}/{made[-1]}" + (f"?{parameters}" if parameters else "")

    yield make
    for name in made:
        far.drop_database(name)


def test_a_server_of_the_named_authority_is_used(belfry, url_of, authority):
    done = belfry("migrate", "up", "--store", url_of(f"sslrootcert={authority.ca_file}"))
    assert done.code == 0, done


@pytest.mark.parametrize("ssl, says", [("on", "certificate"), ("off", "does not support SSL")])
def test_an_unknown_server_is_refused_with_the_remedy(belfry, url_of, ssl, says):
    done = belfry("migrate", "up", "--store", url_of(ssl=ssl))
    assert done.code != 0 and says in done.err, done
    assert "?sslmode=verify-full" in done.err and "?sslrootcert=FILE" in done.err, done
    assert PASSWORD_IN_URL not in done.err


def test_a_server_with_another_name_is_refused(belfry, url_of, authority, far):
    url = url_of(f"sslrootcert={authority.ca_file}&hostaddr={far.address}", host="elsewhere.test")
    done = belfry("migrate", "up", "--store", url)
    assert done.code != 0 and "elsewhere.test" in done.err, done


def test_a_weaker_choice_stands_and_is_loud(url_of, make_cluster):
    cluster = make_cluster(url_of("sslmode=require"), nodes=1)
    assert "tls_unverified" in cluster.log() and "link=store" in cluster.log(), cluster.log()
    client = cluster.client()
    assert client.get("/v1/scheduler/status").json["tls"]["unverified_links"] == ["store"]
    assert b'belfry_tls_unverified_links{link="store"} 1' in client.get("/metrics").body
    client.close()


def test_kafka_without_a_check_is_loud(make_server):
    broker = "kafka://127.0.0.1:1/?security.protocol=ssl"
    server = make_server("--broker", f"sure={broker}", "--broker", f"orders={broker}&enable.ssl.certificate.verification=false",
                         "--broker", f"mail={broker}&ssl.endpoint.identification%2Ealgorithm=none")
    assert server.log().count("tls_unverified") == 2 * len(server.nodes), server.log()
    client = server.client()
    assert client.get("/v1/scheduler/status").json["tls"]["unverified_links"] == ["brokers.orders", "brokers.mail"]
    metrics = client.get("/metrics").body
    assert b'belfry_tls_unverified_links{link="brokers.mail"} 1' in metrics and b'link="brokers.sure"' not in metrics
    client.close()


@pytest.mark.parametrize("ssl", ["on", "off"])
def test_this_machine_needs_no_tls_and_is_not_warned_of(url_of, make_cluster, ssl):
    cluster = make_cluster(url_of(ssl=ssl, host="127.0.0.1"), nodes=1)
    assert "tls_unverified" not in cluster.log(), cluster.log()
