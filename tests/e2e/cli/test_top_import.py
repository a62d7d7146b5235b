"""belfry top, and belfry import crontab."""

import json
import os
import pty
import re
import subprocess
import threading

import pytest

from conftest import BUILD, TIMEOUT_S
from server import Reply

pytestmark = [pytest.mark.tenant, pytest.mark.text("words of commands")]


@pytest.fixture
def ask(belfry, server):
    """ask(*args): belfry with this server."""
    where = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    return lambda *args, **more: belfry(*args, env=where, **more)


# ---- top ----


@pytest.mark.standalone("what runs is told by the node that is asked")
@pytest.mark.own_server
def test_top_once_shows_what_runs_waits_and_failed(ask, client, receiver):
    slow = Reply(hold=threading.Event())
    receiver.answer("/slow", slow)
    receiver.answer("/bad", Reply(status=400))
    running = client.create(name="at work", **receiver.target("/slow"))
    failed = client.create(name="went wrong", **receiver.target("/bad"))
    client.create(name="later", delay="1h", target_type="NOOP")
    client.wait_for(failed["id"], "FAILED")
    client.wait_for(running["id"], "RUNNING")
    done = ask("top", "--once")
    slow.hold.set()
    assert (done.code, done.err) == (0, "")
    assert re.match(r"Belfry \S+ on \S+   ", done.lines[0])
    assert re.match(r"Running 1 of 1000   queued 0 ", done.lines[1])
    assert done.lines[2].split("   ")[0] == "SCHEDULED 1" and "FAILED 1" in done.lines[2]
    assert re.match(r"Since its start: 3 accepted, \d+ attempts, 0 retried, 1 failed", done.lines[3])
    assert re.fullmatch(r"Last 5 min: \d+ completed \(\d+\.\d a second\), \d+ failed, delay p50 \d+\.\d{3} s, p99 \d+\.\d{3} s, backlog \d+", done.lines[4])
    running_row = done.lines[done.lines.index("Running") + 1]
    failed_row = done.lines[done.lines.index("Latest failed tasks") + 1]
    assert running["id"] in running_row and "at work" in running_row
    assert failed["id"] in failed_row and "went wrong" in failed_row


@pytest.mark.shared
def test_top_on_no_terminal_prints_once(ask):
    assert ask("top").lines[0].startswith("Belfry ")
    assert "\033" not in ask("top").out


@pytest.mark.shared
def test_top_on_a_terminal_ends_with_q_and_leaves_the_screen_as_it_was(server):
    master, slave = pty.openpty()
    environment = {**os.environ, "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    process = subprocess.Popen([BUILD / "belfry", "top", "--every", "100ms"], stdin=slave, stdout=slave, env=environment)
    os.close(slave)
    shown = b""
    while shown.count(b"q: quit") < 3:  # it looks again by itself
        shown += os.read(master, 65536)
    os.write(master, b"q")
    rest = []
    while True:
        try:
            rest.append(os.read(master, 65536))
        except OSError:
            break
    assert process.wait(TIMEOUT_S) == 0
    os.close(master)
    text = shown + b"".join(rest)
    assert text.startswith(b"\033[?1049h") and text.rstrip().endswith(b"\033[?25h\033[?1049l")
    assert b"A second: " in text


def test_top_without_a_server_is_unreachable(belfry, tmp_path):
    done = belfry("top", "--once", "--server", "http://127.0.0.1:1", "--data-dir", tmp_path)
    assert done.code == 3 and "cannot reach" in done.err


# ---- import crontab ----

CRONTAB = """\
SHELL=/bin/sh
CRON_TZ=Europe/Berlin

# Morning report
0 8 * * MON-FRI curl -fsS -X POST -H 'X-Team: ops' -d '{"a": 1}' URL/report
*/5 * * * * wget -q -O /dev/null URL/ping
@daily /usr/local/bin/rotate-logs
0 3 * * * curl URL/a | grep ok
61 * * * * curl URL/never
"""


@pytest.fixture
def crontab(tmp_path, receiver):
    path = tmp_path / "crontab"
    path.write_text(CRONTAB.replace("URL", receiver.url("")))
    return path


def recurring(client):
    return {task["name"]: task for task in client.all("/v1/tasks?type=RECURRING")}


def test_dry_run_lists_every_line_and_makes_nothing(belfry, client, crontab, ask):
    done = belfry("import", "crontab", crontab, "--dry-run", "--server", "http://127.0.0.1:1")
    assert done.code == 1 and done.err == "", "some lines are refused; no server is needed"
    results = {line.split()[0]: line for line in done.lines[1:-1]}
    assert set(results) == {"5", "6", "7", "8", "9"}
    assert "would be imported" in results["5"] and "would be imported" in results["6"]
    assert all("refused" in results[n] for n in "789")
    assert done.lines[-1] == "2 would be imported, 3 refused"
    assert recurring(client) == {}
    assert ask("import", "crontab", crontab, "--dry-run").out == done.out


def test_import_makes_tasks_that_behave_as_under_cron_and_only_once(ask, client, crontab, receiver):
    done = ask("import", "crontab", crontab, "--json")
    told = {line["line"]: line for line in map(json.loads, done.lines)}
    assert done.code == 1 and {n: line["result"] for n, line in told.items()} == {
        5: "imported", 6: "imported", 7: "refused", 8: "refused", 9: "refused"}
    assert all(told[n]["reason"] for n in (7, 8, 9)) and "minute" in told[9]["reason"]
    tasks = recurring(client)
    assert set(tasks) == {"Morning report", receiver.url("/ping")}
    report = tasks["Morning report"]
    assert report["id"] == told[5]["task"]
    assert (report["cron_expression"], report["time_zone"]) == ("0 8 * * MON-FRI", "Europe/Berlin")
    assert (report["overlap_policy"], report["catch_up_mode"]) == ("ALLOW", "SKIP_MISSED")
    client.act(report["id"], "run-now")
    call = receiver.wait("/report")[0]
    assert (call.method, call.headers["x-team"], call.body) == ("POST", "ops", b'{"a": 1}')

    again = ask("import", "crontab", crontab)
    assert again.code == 1 and again.lines[-1] == "0 imported, 2 existed already, 3 refused"
    assert recurring(client).keys() == tasks.keys() and len(client.all("/v1/tasks?type=RECURRING")) == 2


def sent(call):
    return call.method, call.headers["content-type"], call.body


@pytest.mark.parametrize("options", [
    '-d "x=1&y=2"', "-d '{\"a\": 1}'", "-H 'content-type: application/json' -d '{\"a\": 1}'", "-X PUT --data-raw x"])
def test_imported_lines_send_what_curl_sends(ask, client, receiver, options):
    subprocess.run(["sh", "-c", f"curl -sS {options} {receiver.url('/curl')}"], check=True, timeout=TIMEOUT_S, capture_output=True)
    assert ask("import", "crontab", "-", stdin=f"0 5 1 1 * curl {options} {receiver.url('/imported')}\n").code == 0
    client.act(recurring(client)[receiver.url("/imported")]["id"], "run-now")
    [curl], [imported] = receiver.wait("/curl"), receiver.wait("/imported")
    assert sent(imported) == sent(curl)


@pytest.mark.parametrize("data", ["x=1&y=2", "42", "@{file}"])
def test_data_of_add_is_sent_as_curl_sends_it(ask, receiver, tmp_path, data):
    (tmp_path / "form").write_text("x=1\r\n&y=2\n")
    data = data.format(file=tmp_path / "form")
    subprocess.run(["curl", "-sS", "-d", data, receiver.url("/curl")], check=True, timeout=TIMEOUT_S, capture_output=True)
    assert ask("add", receiver.url("/added"), "-d", data).code == 0
    [curl], [added] = receiver.wait("/curl"), receiver.wait("/added")
    assert sent(added) == sent(curl)


def test_import_of_good_lines_alone_succeeds(ask, client, tmp_path, receiver):
    text = f"@hourly curl {receiver.url('/hour')}\n"
    done = ask("import", "crontab", "-", "--tz", "Asia/Tokyo", "--queue", "hours", stdin=text)
    assert (done.code, done.err, done.lines[-1]) == (0, "", "1 imported, 0 refused")
    task = recurring(client)[receiver.url("/hour")]
    assert (task["time_zone"], task["queue"], task["target_config"]["method"]) == ("Asia/Tokyo", "hours", "GET")


def test_lines_of_a_system_crontab_name_a_user(ask, client, receiver):
    text = f"0 1 * * * root curl {receiver.url('/night')}\n"
    assert ask("import", "crontab", "-", stdin=text).code == 1
    assert ask("import", "crontab", "-", "--system", stdin=text).code == 0
    assert recurring(client)[receiver.url("/night")]["cron_expression"] == "0 1 * * *"


def test_a_line_that_the_server_refuses_is_listed_as_such(ask, receiver):
    text = f"0 1 * * * curl {receiver.url('/fine')}\n0 2 * * * curl {receiver.url('/other')}\n"
    done = ask("import", "crontab", "-", "--tz", "Mars/Olympus", stdin=text)
    assert done.code == 1 and "line 1: " in done.err and "line 2: " in done.err
    assert done.lines[-1] == "0 imported, 2 refused"


def test_import_says_what_is_wrong_with_the_call(belfry, tmp_path):
    assert belfry("import").code == 2 and belfry("import", "anacron", "x").code == 2
    missing = belfry("import", "crontab", tmp_path / "none")
    assert missing.code == 1 and "none" in missing.err
    away = belfry("import", "crontab", "-", "--server", "http://127.0.0.1:1", "--data-dir", tmp_path,
                  stdin="0 1 * * * curl http://127.0.0.1:2/\n")
    assert away.code == 3 and "cannot reach" in away.err
