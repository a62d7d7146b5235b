"""Nodes that start: together on an empty database, and where they cannot. What is wrong is one clear line, without the password."""

import signal
import socket
import threading

import pytest

from postgres import PASSWORD, PASSWORD_IN_URL
from server import Reply, now_ms, to_ms, until


def serve(belfry, tmp_path, url):
    return belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", "--store", url, timeout_s=60)


def one_line(done):
    """What it says when it cannot start."""
    assert done.code == 1, done
    lines = done.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("belfry serve: "), done.err
    assert PASSWORD not in done.err and PASSWORD_IN_URL not in done.err and "wr0ng" not in done.err, "the password is shown"
    return lines[0]


def test_a_wrong_password_is_one_clear_line(belfry, postgres, database, tmp_path):
    assert "password" in one_line(serve(belfry, tmp_path, postgres.url(database, user="locked").replace(PASSWORD_IN_URL, "wr0ng")))


def test_an_unreachable_host_is_one_clear_line(belfry, postgres, database, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: refused
        port = unused.getsockname()[1]
        assert f"127.0.0.1:{port}" in one_line(serve(belfry, tmp_path, postgres.url(database, port))).replace(" port ", ":").replace('"', "").replace(",", "")


def test_a_host_that_says_nothing_is_one_clear_line(belfry, postgres, database, wires, tmp_path):
    wire = wires.new(postgres.port)
    wire.drop()
    one_line(serve(belfry, tmp_path, postgres.url(database, wire.port)))


def test_a_database_that_is_not_there_is_one_clear_line(belfry, postgres, tmp_path):
    assert "nowhere" in one_line(serve(belfry, tmp_path, postgres.url("nowhere")))


def test_a_read_only_database_is_one_clear_line(belfry, postgres, database, tmp_path):
    postgres.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert "read-only" in one_line(serve(belfry, tmp_path, postgres.url(database)))


@pytest.mark.parametrize("url", ["mysql://127.0.0.1/x", "postgres://127.0.0.1:port/x", "postgres://127.0.0.1/x?prepare=perhaps"])
def test_a_url_that_is_none_is_named(belfry, tmp_path, url):
    done = serve(belfry, tmp_path, url)
    assert done.code in (1, 2) and len(done.err.splitlines()) <= 2 and ("store" in done.err or "prepare" in done.err or "port" in done.err), done


@pytest.mark.parametrize("part", range(3))
def test_nodes_that_start_together_on_an_empty_database_make_it_once(make_cluster, postgres, database, receiver, part):
    cluster = make_cluster(postgres.url(database), start=False)
    for node in cluster.nodes:
        node.launch()
    for node in cluster.nodes:
        node.listening()
    keys = {(node.data_dir / "admin.key").read_text().strip() for node in cluster.nodes if (node.data_dir / "admin.key").exists()}
    assert keys, "nobody made an admin key"
    client = cluster.client()
    for key in keys:
        for node in cluster.nodes:
            answer = client.get("/v1/tasks", headers={"Authorization": f"Bearer {key}"}, auth=False, node=node)
            assert answer.status == 200, f"a key that was shown opens nothing: {answer}"
    cluster.nodes.sort(key=lambda node: not (node.data_dir / "admin.key").exists())
    cluster.settled(3)
    made = [client.create(name=f"t{i}", **receiver.target(f"/t/{i}")) for i in range(9)]
    for task in made:
        client.wait_for(task["id"], "COMPLETED")
    assert len(receiver.calls) == 9
    cluster.stop()
    assert PASSWORD not in cluster.log() and PASSWORD_IN_URL not in cluster.log(), "the password is shown"


def test_a_node_takes_no_request_before_it_knows_the_databases_time(make_cluster, postgres, database, wires, clocks):
    """What is asked for at once is due by that time, and would wait for as long as the node's own clock is ahead."""
    wire = wires.new(postgres.port)
    cluster = make_cluster([postgres.url(database, wire.port)], nodes=1, env=[clocks[0].env])
    cluster.stop()
    clocks[0].jump(90_000)
    wire.delay(20)  # its first beat takes a while
    task = cluster.start().client().create(target_type="NOOP")
    assert abs(to_ms(task["run_at"]) - now_ms()) < 10_000, task
    cluster.stop()


def test_a_pooler_that_lends_connections_for_a_transaction_is_enough(make_cluster, postgres, database, receiver, pooler):
    """Without prepared statements. News between nodes do not come through it, so what another node made may wait for the next poll."""
    cluster = make_cluster(postgres.url(database, pooler.port, prepare="off"))
    client = cluster.client()
    cluster.settled(3)
    made = [client.create(name=f"t{i}", delay=f"{i * 20}ms", **receiver.target(f"/t/{i}")) for i in range(60)]
    client.request("PUT", "/v1/queues/q", {"max_concurrent": 2})
    for task in made:
        client.wait_for(task["id"], "COMPLETED")
    assert sorted(c.path for c in receiver.calls) == sorted(f"/t/{i}" for i in range(60))
    victim = cluster.nodes[1]
    victim.kill()
    assert victim.process.returncode == -signal.SIGKILL
    cluster.settled(2)
    task = client.create(name="after", **receiver.target("/after"))
    client.wait_for(task["id"], "COMPLETED")
    victim.start()
    cluster.settled(3)
    cluster.stop()
    assert "prepared statement" not in cluster.log()


def test_a_node_ends_though_the_database_never_takes_its_last_outcome(make_cluster, postgres, database, receiver):
    """A stop has an end: what could not be settled is an orphan, which the next start finds."""
    answered = threading.Event()
    receiver.answer("/last", Reply(hold=answered), Reply(200))
    cluster = make_cluster(postgres.url(database), "--drain-deadline", "1s", nodes=1)
    task = cluster.client().create(name="last", **receiver.target("/last"))["id"]
    receiver.wait("/last")
    postgres.stop("fast")
    answered.set()
    node = cluster.nodes[0]
    node.signal(signal.SIGTERM)
    assert node.ended(30) == 1
    assert "event=left_unsettled" in node.log()
    postgres.start()
    node.start()
    assert cluster.client().wait_for(task, "COMPLETED")["status"] == "COMPLETED"


def test_a_node_that_is_told_to_end_while_the_database_is_away_ends(make_cluster, postgres, database):
    cluster = make_cluster(postgres.url(database), "--drain-deadline", "1s")
    postgres.stop("fast")
    until(lambda: cluster.client().get("/ready", auth=False).status == 503, why="it does not notice")
    for node in cluster.nodes:
        node.signal(signal.SIGTERM)
    for node in cluster.nodes:
        node.ended(30)
