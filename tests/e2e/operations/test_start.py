"""What one meets first: the greeting, a port or a directory in use, ./run and its demo, migrate and check-config."""

import json
import os
import re
import shlex
import signal
import subprocess
import threading

import pytest

from conftest import ROOT, TIMEOUT_S
from server import until


# ---- the greeting ----


def proposed(server):
    """The commands that it tells to try; the log is complete once the last of them is there."""
    until(lambda: server.log().count(" list"), why=server.log)
    return re.findall(r"^  (\S.* (?:add|list)\b.*)$", server.log(), re.M)


@pytest.mark.standalone("it is about a data directory")
def test_proposed_commands_work_when_they_are_copied(make_server, tmp_path):
    commands = proposed(make_server())
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S,
                              check=False)
        assert (done.returncode, done.stderr) == (0, ""), command
    assert re.search(r"^\S+ +tick +SCHEDULED", done.stdout, re.M) and re.search(r"^\S+ +hello ", done.stdout, re.M)


def test_proposed_commands_are_quoted_for_the_shell(build, tmp_path):
    from server import Server

    server = Server(tmp_path / "it's a; $(dir)").start()
    try:
        for command in proposed(server):
            words = shlex.split(command)
            assert words[0] == str(build / "belfry")
            assert words[words.index("--data-dir") + 1] == str(server.data_dir)
            assert words[words.index("--server") + 1] == server.url
    finally:
        server.close()


@pytest.mark.standalone("it is about a data directory")
def test_key_is_shown_at_the_first_start_only(make_server):
    server = make_server()
    proposed(server)
    assert f"\n  {server.key}\n" in server.log()
    server.stop()
    server.lines.clear()
    server.start()
    proposed(server)
    assert server.key not in server.log() and f"The admin key is in {server.data_dir}/admin.key.\n" in server.log()


def test_data_directory_is_made_with_the_folders_above_it(belfry, tmp_path):
    deep = tmp_path / "a/b/c"
    assert belfry("migrate", "up", "--data-dir", deep).code == 0
    assert (deep / "belfry.db").exists() and deep.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.standalone("only there tasks may call loopback addresses")
def test_what_is_said_of_loopback_addresses_looks_at_the_tenants(make_server):
    server = make_server(env={"BELFRY_HTTP_ALLOW_LOOPBACK": ""})
    said = "Tasks may call loopback addresses of this machine while"
    assert server.log().count(said) == 1
    client = server.client()
    assert client.post("/v1/tenants", {"name": "acme"}).status == 201
    client.close()
    before = len(server.log())
    server.stop()
    server.start()
    assert said not in server.log()[before:]


@pytest.mark.standalone("any process will do")
def test_port_in_use_is_one_clear_line(belfry, server, tmp_path):
    done = belfry("serve", "--listen", f"127.0.0.1:{server.port}", "--data-dir", tmp_path / "other")
    assert (done.code, done.err) == (1, f"belfry serve: listen on '127.0.0.1:{server.port}': Address already in use; choose "
                                        "another address with --listen\n")


@pytest.mark.standalone("any process will do")
def test_the_operators_port_in_use_is_named(belfry, server, tmp_path):
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "other", env={"BELFRY_API_ADMIN_LISTEN": f"127.0.0.1:{server.port}"})
    assert done.code == 1 and "Address already in use; choose another address with api.admin_listen\n" in done.err, done


@pytest.mark.standalone("it is about a data directory")
def test_directory_in_use_is_one_clear_line(belfry, server):
    done = belfry("serve", "--listen", "127.0.0.1:0", "--data-dir", server.data_dir)
    assert (done.code, done.err) == (1, f"belfry serve: data directory '{server.data_dir}' is in use by process "
                                        f"{server.process.pid}\n")


# ---- migrate ----


APPLIED = r"VERSION  NAME +APPLIED AT\n0001     spine +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\n"
NOT_APPLIED = r"VERSION  NAME +APPLIED AT\n0001     spine +-\n"


def test_migrations_are_shown_applied_and_taken_back(belfry, tmp_path):
    where = ("--data-dir", tmp_path / "data")
    done = belfry("migrate", "status", *where)
    assert (done.code, done.out) == (1, "") and done.err.startswith(f"belfry migrate: there is no data directory '{tmp_path}/data': ")
    assert not (tmp_path / "data").exists(), "status only reads"
    (tmp_path / "data").mkdir()
    done = belfry("migrate", "status", *where)
    assert (done.code, done.err) == (0, "") and re.match(NOT_APPLIED, done.out)
    done = belfry("migrate", "up", *where)
    assert (done.code, done.err) == (0, "") and re.match(APPLIED, done.out)
    done = belfry("migrate", "down", *where)
    assert (done.code, done.out) == (2, "") and done.err.startswith("belfry migrate: going down from version ")
    assert "add --yes" in done.err and re.match(APPLIED, belfry("migrate", "status", *where).out)
    done = belfry("migrate", "down", "--to", "0", "--yes", *where)
    assert done.code == 0 and re.match(NOT_APPLIED, done.out)
    assert re.match(APPLIED, belfry("migrate", "up", "--to", "1", *where).out)


def test_migrations_of_a_cluster_are_shown_applied_and_taken_back(belfry, postgres, database):
    where = ("--store", postgres.url(database))
    done = belfry("migrate", "status", *where)
    assert (done.code, done.err) == (0, "") and re.match(NOT_APPLIED.replace("spine", "start"), done.out)
    done = belfry("migrate", "up", *where)
    assert (done.code, done.err) == (0, "") and re.match(APPLIED.replace("spine", "start"), done.out)
    assert belfry("migrate", "down", *where).code == 2
    done = belfry("migrate", "down", "--to", "0", "--yes", *where)
    assert done.code == 0 and re.match(NOT_APPLIED.replace("spine", "start"), done.out)
    assert postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database) == ["0"]
    done = belfry("migrate", "status", "--store", "mysql://nowhere")
    assert (done.code, done.out) == (2, "") and "--store must be a URL that begins with postgres://" in done.err


def test_migrations_are_objects_with_json(belfry, tmp_path):
    where = ("--data-dir", tmp_path, "--json")
    first = json.loads(belfry("migrate", "status", *where).lines[0])
    assert first == {"version": 1, "name": "spine", "known": True, "applied": False}
    first = json.loads(belfry("migrate", "up", *where).lines[0])
    assert first["applied"] and first["applied_at"].endswith("Z")


@pytest.mark.standalone("it is about a data directory")
def test_a_server_says_when_it_migrated_and_keeps_others_from_it(belfry, server):
    where = ("--data-dir", server.data_dir)
    assert re.match(APPLIED, belfry("migrate", "status", *where).out)
    for words in (["up"], ["down", "--yes"]):
        done = belfry("migrate", *words, *where)
        assert (done.code, done.out) == (1, "")
        assert done.err == f"belfry migrate: data directory '{server.data_dir}' is in use by process {server.process.pid}\n"


@pytest.mark.parametrize("words, sentence", [
    ([], "the verb must be status, up or down"),
    (["sideways"], "the verb must be status, up or down"),
    (["up", "down"], "the verb must be status, up or down"),
    (["down", "--to", "7"], "--to is above the current version 0"),
])
def test_wrong_use_of_migrate_is_named(belfry, tmp_path, words, sentence):
    done = belfry("migrate", *words, "--data-dir", tmp_path / "data")
    assert (done.code, done.out, done.err) == (2, "", f"belfry migrate: {sentence}\n")


def test_migrating_to_an_unknown_version_is_refused(belfry, tmp_path):
    done = belfry("migrate", "up", "--to", "9000", "--data-dir", tmp_path / "data")
    assert done.code == 1 and "there is no schema version 9000" in done.err


# ---- check-config ----


@pytest.mark.parametrize("text, out", [("", "0 settings"), ("[log]\nlevel = warn\n", "1 setting"),
                                       ("data_dir = /x\nlog.level = warn # quiet\n", "2 settings")])
def test_a_valid_file_is_called_so(belfry, tmp_path, text, out):
    path = tmp_path / "belfry.conf"
    path.write_text(text)
    done = belfry("check-config", path)
    assert (done.code, done.out, done.err) == (0, f"{path}: {out}, all valid\n", "")
    assert json.loads(belfry("check-config", "--json", path).out) == {"valid": True, "settings": int(out.split()[0])}


@pytest.mark.parametrize("text, said", [("api.listne = x\n", "did you mean 'api.listen'"), ("\n[worker]\nconcurrency = 0\n", ":3)"),
                                        ("log.level = loud\n", "log.level")])
def test_what_is_wrong_in_a_file_is_named_with_its_line(belfry, tmp_path, text, said):
    path = tmp_path / "belfry.conf"
    path.write_text(text)
    done = belfry("check-config", path)
    assert (done.code, done.out) == (1, "") and said in done.err and f"({path}:" in done.err
    serve = belfry("serve", "--config", path, "--data-dir", tmp_path / "data")
    assert (serve.code, serve.err) == (2, done.err.replace("check-config", "serve"))


def test_a_file_that_cannot_be_read_is_named(belfry, tmp_path):
    assert belfry("check-config", tmp_path / "none").err == f"belfry check-config: {tmp_path}/none: No such file or directory\n"
    assert belfry("check-config", tmp_path).err == f"belfry check-config: {tmp_path}: Is a directory\n"
    assert belfry("check-config").err == "belfry check-config: give exactly one file\n"
    (tmp_path / "long").write_text("#" * (1 << 20) + "\n")
    assert belfry("check-config", tmp_path / "long").err == f"belfry check-config: {tmp_path}/long is longer than 1048576 bytes\n"


# ---- ./run ----


@pytest.fixture
def checkout(build, tmp_path):
    """A tree with ./run in it, whose build is the one that is tested: meson and ninja have nothing to do."""
    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    for name in ("run", "scripts/demo.sh", "scripts/demo-system.sh"):
        (tree / name).write_bytes((ROOT / name).read_bytes())
        (tree / name).chmod(0o755)
    for name, text in {"scripts/install-deps": "exit 0", "ninja": "exit 0"}.items():
        (tree / name).write_text(f"#!/bin/bash\n{text}\n")
        (tree / name).chmod(0o755)
    (tree / "build").mkdir()
    (tree / "build/build.ninja").touch()
    (tree / "build/belfry").symlink_to(build / "belfry")
    text = (tree / "run").read_text().replace("PATH=/usr/sbin:", f"PATH={tree}:/usr/sbin:", 1)
    (tree / "run").write_text(text)
    return tree


def test_run_passes_commands_on_from_any_directory(checkout, tmp_path, belfry):
    for cwd in (checkout, tmp_path):
        done = subprocess.run([checkout / "run", "version"], capture_output=True, text=True, cwd=cwd, timeout=TIMEOUT_S, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, belfry("version").out, "")


def run_until(command, said, cwd, env):
    """Runs it until it has said all of these, interrupts it, and returns what it said and its exit status."""
    heeds_interrupts = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in a terminal, though the tests run in the background
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env=env, start_new_session=True,
                               preexec_fn=heeds_interrupts)
    watchdog = threading.Timer(TIMEOUT_S, lambda: os.killpg(process.pid, signal.SIGKILL))  # and whom it has started: they hold the pipe too
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if all(re.search(pattern, "".join(lines)) for pattern in said):
            break
    process.send_signal(signal.SIGINT)
    lines.append(process.stdout.read())
    code = process.wait()
    watchdog.cancel()
    return "".join(lines), code


def test_run_alone_starts_the_server_and_names_the_binary_as_one_types_it(checkout, tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "BELFRY_API_LISTEN": "127.0.0.1:0"}
    env.pop("XDG_DATA_HOME", None)
    text, code = run_until([checkout / "run"], [r" list"], checkout, env)
    assert code == 0, text
    assert f"data in {tmp_path}/.local/share/belfry\n" in text
    assert re.search(r"^  build/belfry add --in 5s --noop --name hello --server http://127\.0\.0\.1:\d+$", text, re.M)


def test_demo_fires_within_seconds_and_leaves_nothing_behind(checkout, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    text, code = run_until([checkout / "run", "--demo"], [r"/tick +attempt 1, answered with 200\n", r"attempt 2, answered with"],
                           checkout, env)
    assert re.search(r"^\d\d:\d\d:\d\d\.\d{3}  /tick +attempt 1, answered with 200$", text, re.M), text
    assert "/flaky/fail/2  attempt 1, answered with 500\n" in text
    assert code == 130 and not list(temporary.iterdir())


def test_demo_takes_no_words(checkout):
    done = subprocess.run([checkout / "run", "--demo", "now"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "run: --demo takes no further words\n")


def test_priorities_that_a_queue_cannot_separate_are_refused_by_their_own_name(belfry):
    done = belfry("worker", "--queue", "amqp://127.0.0.1:1", "--events", "amqp://127.0.0.1:1", "--priorities", "2-5")
    assert done.code == 1 and done.err.startswith("belfry worker: worker.priorities: must be made of whole classes (0-3, 4-6, 7-9), unless"), done


@pytest.mark.parametrize("text, sentence", [
    ("roles = api,schedulr\n", "roles: contains 'schedulr': roles are api, scheduler, worker and updater"),
    ("[api]\nlisten = 8080\n", "api.listen: '8080' is not an address to listen on; give HOST:PORT, such as 127.0.0.1:8080"),
    ("[worker]\npriorities = 12\n", "worker.priorities: must be a range such as 0-3, or one priority such as 7, between 0 and 9"),
    ("[worker]\nlabels = a,,b\n", "worker.labels: contains an empty entry; separate entries by one comma"),
    ("store = mysql://db/x\n", "store: must be a URL that begins with postgres://, or file:/path with one"),
    ("queue = http://x\n", "queue: must be a URL that begins with"),
    ("[brokers]\norders = http://x\n", "brokers.orders: must be a URL"),
    ("[brokers]\norders.tenants = acme\n", "brokers.orders.tenants: there is no broker 'orders' for this rule"),
    ("[brokers]\norders = amqps://x?cacert=/nope\n", "brokers.orders.cacert"),
    ("[brokers]\norders = amqps://x?cert=/nope\n", "brokers.orders.cert"),
    ("[api]\nlisten = 0.0.0.0:8080\n", "api.listen: 0.0.0.0:8080 can be reached from other machines"),
])
def test_a_value_that_serve_or_worker_refuses_is_refused(belfry, tmp_path, text, sentence):
    path = tmp_path / "belfry.conf"
    path.write_text(text)
    done = belfry("check-config", path)
    assert (done.code, done.out) == (1, "") and done.err.startswith(f"belfry check-config: {sentence}"), done
    assert done.err.endswith(f"({path}:{len(text.splitlines())})\n") and done.err.count("\n") == 1, done


@pytest.mark.parametrize("text, count, said", [
    ("api.listne = x\nlog.level = loud\n[worker]\nconcurrency = 0\n", 3, [":1)", ":2)", ":4)"]),
    ("roles = api,x\nstore = mysql://x\n[brokers]\no = http://x\n[worker]\nlabels = a,,b\n", 4, ["roles: ", ":1)", "store: ", "brokers.o: ", ":4)", "worker.labels: "]),
    ("api.listne = x\nroles = y\nqueue = http://x\nevents = http://x\nhttp.allow = a b, 10.0.0.0/8, c/d\n", 6,
     ["api.listne", "roles: ", "queue: ", "events: ", "'a b'", "'c/d'"]),
    ("[brokers]\na = http://x\nb = http://y\nb.tenants = acme\nzz.destinations = x\nyy.destinations = x\n", 4,
     ["brokers.a: ", "brokers.b: ", "brokers.zz.destinations: there is no broker 'zz'", "brokers.yy.destinations: there is no broker 'yy'"]),
    ("[api]\nlisten = 127.0.0.1:8080\nadmin_listen = 127.0.0.1:8080\nmax = 3\n[secrets]\nkey_file = /etc/passwd\n[api.tls]\ncert = /nope\n"
     "[api.tls.identities]\na = dns:a x nothing\nb = what x tasks:read\n", 7,
     ["api.admin_listen: is the address of api.listen", ":3)", "api.max", "secrets.key_file: ", ":6)", "api.tls.", "api.tls.identities.a: has the unknown scope 'nothing'", ":10)",
      "api.tls.identities.b: must begin with dns:NAME", ":11)", "requires api.tls.client_ca"]),
])
def test_all_errors_of_a_file_are_told(belfry, tmp_path, text, count, said):
    path = tmp_path / "belfry.conf"
    path.write_text(text)
    done = belfry("check-config", path)
    assert done.code == 1 and len(done.err.splitlines()) == count and all(one in done.err for one in said), done
    assert all(f" ({path}" in line for line in done.err.splitlines()), done


def test_a_file_that_flags_must_complete_is_valid_and_says_so(belfry, tmp_path):
    path = tmp_path / "belfry.conf"
    path.write_text("events = redis://127.0.0.1\n")
    done = belfry("check-config", path)
    assert (done.code, done.out) == (0, f"{path}: 1 setting, all valid\n")
    assert done.err == f"belfry check-config: with this file alone, 'belfry serve' refuses it: {path}: --events requires --queue\n"


# ---- the environment ----


@pytest.mark.standalone("reads what one process prints")
def test_a_variable_that_is_no_setting_is_warned_of(belfry, make_server):
    server = make_server(env={"BELFRY_API_LISTN": "x", "BELFRY_FOO": "1"})
    assert "belfry serve: the variable 'BELFRY_API_LISTN' is no setting and has no effect; did you mean BELFRY_API_LISTEN?" in server.lines
    assert "belfry serve: the variable 'BELFRY_FOO' is no setting and has no effect" in server.lines
    assert not [line for line in server.lines if "BELFRY_TEST" in line or "BELFRY_LOG_FORMAT" in line]
    done = belfry("list", env={"BELFRY_SEVER": "http://x", "BELFRY_FOO": "1", "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)})
    assert (done.code, done.err.splitlines()[0]) == (
        0, "belfry list: the variable 'BELFRY_SEVER' is no setting and has no effect; did you mean BELFRY_SERVER?")


# ---- hints ----


def test_a_hint_of_a_node_names_the_store(belfry, postgres, database, tmp_path):
    url = postgres.url(database)
    assert belfry("migrate", "up", "--to", "3", "--store", url).code == 0
    done = belfry("serve", "--store", url, "--data-dir", tmp_path, "--listen", "127.0.0.1:0")
    assert done.code == 1 and "then run 'belfry migrate up --store postgres://" in done.err, done
