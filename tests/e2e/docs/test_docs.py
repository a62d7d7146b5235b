"""The documents, held to what they describe: README.md is followed word for word, tables are compared with the code, and the
receiver of docs/DELIVERY.md is run."""

import functools
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time

import pytest

from conftest import ROOT, TIMEOUT_S
from ports import free_port


def read(name):
    return (ROOT / name).read_text()


# ---- README.md ----


def shell_blocks():
    """[(command, what README.md shows as its output)]: lines behind '$ ' and what follows each."""
    found = []
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", read("README.md"), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


# What differs from run to run, and the blanks that follow from it.
VARYING = [
    (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\w{3} \d{4}-\d\d-\d\d 08:00:00 CES?T \(\d{4}-\d\d-\d\d 0[67]:00:00Z\)", "MORNING"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?Z", "TIME"),
    (r"\bin (?:\d+(?:\.\d+)?(?:ms|[dhms]))+", "in SPAN"),
    (r"\b\d+(?:\.\d+)?m?s\b", "SPAN"),
    (r"\b(?:now|SPAN ago), TIME", "MOMENT"),
    (r" +", " "),
]


def shape(text):
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text)
    return text


@pytest.mark.standalone("the README begins with one machine")
def test_readme_can_be_followed_word_for_word(build, make_server, tmp_path):
    """./run and build/belfry stand for the binary that is tested, and the default server for one of our own; the commands share
    a shell, as they would. With BELFRY_README_FULL ./run is really called, and builds first."""
    server = make_server()
    blocks = shell_blocks()
    assert len(blocks) > 4, "README.md shows few commands any more"
    known = {"build/belfry": f"'{build}/belfry'", "~/.local/share/belfry": str(server.data_dir),
             "http://127.0.0.1:8080": server.url}
    if os.environ.get("BELFRY_README_FULL") != "1":
        known["./run"] = f"'{build}/belfry'"
    script = "set -e\n"
    for i, (command, _) in enumerate(blocks):
        for shown, real in known.items():
            command = command.replace(shown, real)
        script += f"{{ {command}; }} >{tmp_path}/{i}\n"
    environment = {**os.environ, "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment, check=False,
                          timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    for i, (command, output) in enumerate(blocks):
        assert shape((tmp_path / str(i)).read_text()) == shape(output), command


def test_readme_names_only_what_exists():
    for command in re.findall(r"^(\./\w+) {2,}", read("README.md"), re.M):
        assert os.access(ROOT / command, os.X_OK), f"README.md tells to run {command}"


PAGES = sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(page)):
        assert ((ROOT / page).parent / link).exists(), f"{page} links to {link}"


def test_decisions_are_numbered_without_a_gap():
    numbers = sorted(int(p.name[:4]) for p in (ROOT / "docs/decisions").glob("*.md"))
    assert numbers == list(range(len(numbers)))


def test_architecture_names_files_that_exist():
    text = read("docs/ARCHITECTURE.md")
    for name in re.findall(r"`((?:src/)?(?:base|core|port|node|platform|broker|store|queue|events|lease|runner|workflow|api|server|cli|bench)/[\w./*]+)`", text):
        path = name if name.startswith("src/") else f"src/{name}"
        if "." not in path and not path.endswith(("*", "/")):
            path += ".*"
        assert list(ROOT.glob(path)), f"docs/ARCHITECTURE.md names {name}"


# ---- tables that have a source ----


def test_configuration_is_that_of_the_binary(belfry):
    table = re.search(r"^<!-- From [^\n]*-->\n(.*?)^<!-- end -->", read("docs/CONFIGURATION.md"), re.M | re.S).group(1)
    assert table == belfry("__configuration").out, "print it anew: belfry __configuration"


def test_configuration_knows_every_flag_of_serve(belfry):
    options = belfry("serve", "--help").out.split("\nOptions:\n")[1].split("\nCommon options:\n")[0]
    flags = re.findall(r"^ +(--[a-z-]+)", options, re.M)
    assert len(flags) > 5
    text = read("docs/CONFIGURATION.md")
    for flag in flags:
        assert f"`{flag}" in text, flag


def test_the_example_of_a_configuration_file_is_valid(belfry, tmp_path):
    block = re.search(r"^```\n(# /etc.*?)^```", read("docs/CONFIGURATION.md"), re.M | re.S).group(1)
    path = tmp_path / "belfry.conf"
    path.write_text(block)
    assert belfry("check-config", path).out == f"{path}: 3 settings, all valid\n"


def test_metrics_are_those_of_the_code():
    rows = re.findall(r'X\(\w+, (\w+), "(\w+)",[\s\\]*"([^"]+)"\)', read("src/base/metrics.h"))
    assert len(rows) > 10
    told = re.findall(r"^\| `(belfry_\w+)` \| (\w+) \| (.*) \|$", read("docs/OPERATIONS.md"), re.M)
    kinds = {"SECONDS": "counter", "OPTIONAL": "gauge"}
    assert told == [(name, kinds.get(kind, kind.lower()), text) for kind, name, text in rows]


def test_log_events_are_those_of_the_code():
    found = set()
    for path in (ROOT / "src").rglob("*.c"):
        for level, event in re.findall(r'\blog_(?:event\(LOG_)?(debug|info|warn|error)[(,]\s*"(\w+)"', path.read_text(), re.I):
            found.add((event, level.lower()))
    told = []
    for events, level in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (debug|info|warn|error) \| ", read("docs/OPERATIONS.md"), re.M):
        told += [(event, level) for event in re.findall(r"`(\w+)`", events)]
    assert set(told) == found
    assert len(told) == len(set(told)), "an event has two meanings"


def test_the_unit_waits_longer_than_a_drain_takes(belfry):
    unit = read("deploy/belfry.service")
    drain = re.search(r"`server.drain_deadline` .*? `(\d+)s` \|", belfry("__configuration").out).group(1)
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M).group(1)) > int(drain) + 5
    flags = re.search(r"^ExecStart=\S+ serve(.*)$", unit, re.M).group(1)
    assert set(re.findall(r"--[a-z-]+", flags)) <= set(re.findall(r"--[a-z-]+", belfry("serve", "--help").out))


# ---- the receiver of docs/DELIVERY.md ----


def wait_for_port(port, process):
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the receiver does not listen")


@pytest.fixture
def example(tmp_path):
    """(url, database) of the example, running."""
    (tmp_path / "receiver.py").write_text(re.search(r"^```python\n(.*?)^```", read("docs/DELIVERY.md"), re.M | re.S).group(1))
    port = free_port()
    process = subprocess.Popen([sys.executable, "receiver.py", str(port)], cwd=tmp_path)
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}/", tmp_path / "receiver.db"
    finally:
        process.kill()
        process.wait()


def call(url, webhook_id, fence, body="x"):
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"webhook-id: {webhook_id}", "-H",
                           f"Belfry-Fence: {fence}", "-d", body, url], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=True)
    return int(done.stdout)


def test_the_example_receiver_does_each_piece_of_work_once(example):
    url, database = example
    assert call(url, "a", 1, "first") == 200
    assert call(url, "a", 1, "again") == 200  # a repeat is told that it was done
    assert call(url, "a", 2, "after a crash") == 200
    assert call(url, "b", 3, "another") == 200
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT id, body FROM work ORDER BY id").fetchall() == [("a", b"first"), ("b", b"another")]


def test_the_example_receiver_refuses_a_lower_fence(example):
    url, database = example
    assert call(url, "a", 1) == 200
    with sqlite3.connect(database) as db:  # begun under fence 5, and not done
        db.execute("UPDATE seen SET fence = 5, done = 0")
        db.execute("DELETE FROM work")
    assert call(url, "a", 4) == 409
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT count(*) FROM work").fetchone() == (0,)
    assert call(url, "a", 6) == 200
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT fence, done FROM seen").fetchall() == [(6, 1)]


@pytest.mark.text("the example is on one machine")
def test_the_example_receiver_works_with_belfry(example, client):
    url, database = example
    task = client.create(target_type="HTTP_CALLBACK", target_config={"url": url, "body": {"n": 1}})
    assert client.wait_for(task["id"], "COMPLETED", "FAILED")["status"] == "COMPLETED"
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT id, body FROM work").fetchall() == [(task["id"], b'{"n": 1}')]


# ---- docs/EVENTS.md ----


def test_members_of_messages_are_those_of_the_code():
    """Each member has a row, by its name: those of retry behind a dot."""
    written = set()
    for name in ("src/port/event_message.c", "src/core/target/message.c"):
        written |= set(re.findall(r'\{ "(\w+)",\s+WIRE_', read(name)))
    assert len(written) > 50
    told = {word.rpartition(".")[2] for row in re.findall(r"^\| (`[^|]*`) \|", read("docs/EVENTS.md"), re.M) for word in re.findall(r"`([\w.]+)`", row)}
    beside = {"host", "host_breaker", "tenant_breaker"}  # described in the text before their table
    assert told == written - beside


# ---- names in the text ----


def all_pages():
    return {p.name: p.read_text() for p in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}


def test_settings_that_pages_name_exist(belfry):
    known = set(re.findall(r"^\| `([a-z_.*]+)`", belfry("__configuration").out, re.M))
    sections = "|".join(sorted({key.partition(".")[0] for key in known if "." in key} - {"brokers"}))
    for name, text in all_pages().items():
        for word in re.findall(rf"`((?:{sections})\.[a-z_]+)(?: = [^`]*)?`", text):
            is_file = word == "secrets.key" or word.endswith((".example", ".c", ".h"))
            assert word in known or is_file, f"{name} names the setting {word}"


def test_metrics_that_pages_name_exist():
    source = "".join(p.read_text() for p in (ROOT / "src").rglob("*.[ch]"))
    views = {"belfry_tasks", "belfry_executions", "belfry_queues", "belfry_tenants", "belfry_breakers", "belfry_dependencies", "belfry_workflows"}
    for name, text in all_pages().items():
        for word in set(re.findall(r"\b(belfry_[a-z_]+[a-z])\b", text)) - views - {"belfry_reports", "belfry_drill"}:
            assert f'"{word}' in source or f" {word}" in source, f"{name} names {word}"


def test_scopes_are_those_of_the_code():
    scopes = set(re.findall(r'X\(\w+, "([a-z:-]+)"\)', read("src/api/auth/scopes.h")))
    told = re.search(r"^\| scope \| allows \|\n\|---\|---\|\n(.*?)^$", read("docs/TENANTS.md"), re.M | re.S)[1]
    assert {scope for row in told.splitlines() for scope in re.findall(r"`([a-z:-]+)`", row.split("|")[1])} == scopes


def test_causes_of_delays_are_those_of_the_code():
    causes = re.findall(r'X\(([A-Z_]+), "', read("src/core/task/late.h"))
    told = re.search(r"^\| `delay_cause` \|[^\n]*\n\|---\|---\|\n(.*?)^$", read("docs/DELIVERY.md"), re.M | re.S)[1]
    assert re.findall(r"^\| `([A-Z_]+)`", told, re.M) == [cause for cause in causes if cause != "NONE"]


def test_commands_and_flags_that_pages_name_exist(belfry):
    """Of commands in the text and in blocks: `belfry COMMAND … --flag`."""
    commands = re.findall(r"^  ([a-z-]+) ", belfry("--help").out.partition("Commands:")[2], re.M)
    help_of = functools.cache(lambda command: belfry(command, "--help").out)
    for name, text in all_pages().items():
        for line in re.findall(r"^(?:\$ )?belfry .*$|`belfry [^`]*`", text, re.M):
            for command, rest in re.findall(r"belfry ([a-z][a-z-]*)([^|;`]*)", line):
                assert command in commands, f"{name} names 'belfry {command}'"
                usage = re.search(r"^Usage: belfry \S+ \[OPTION…\] ([a-z-]+\|[a-z|-]+)", help_of(command), re.M)
                if usage and (rest.strip() or name == "RUNBOOK.md"):  # elsewhere, a command alone is only named
                    assert rest.split()[:1] and rest.split()[0] in usage[1].split("|"), f"{name}: 'belfry {command}{rest}' has no verb"
                outside = re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", rest)
                for flag in re.findall(r"(?<=\s)--[a-z][a-z-]+", outside):
                    assert flag in re.findall(r"--[a-z][a-z-]+", help_of(command)), f"{name}: belfry {command} has no {flag}"
