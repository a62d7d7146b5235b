"""Completion of what only the server knows: ids with their names, queues, calendars, tenants, keys."""

import os
import socket
import subprocess
import time

import pytest

from conftest import TIMEOUT_S
from server import until

pytestmark = [pytest.mark.tenant, pytest.mark.text("names that a shell completes")]

HURRY_S = 1.5  # the limit is 0.2 s; sanitizers and a busy machine take the rest


@pytest.fixture
def complete(belfry, server):
    """[(candidate, what it is)] without options, for the last of the words."""
    def ask(*words):
        done = belfry("__complete", "--", *words, env={"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)})
        assert (done.code, done.err) == (0, "")
        return [tuple(line.split("\t")) for line in done.lines if not line.startswith("--")]
    return ask


def test_ids_of_tasks_are_offered_with_their_names(complete, client):
    tasks = [client.create(name=name, delay="1h", target_type="NOOP") for name in ("backup", "to all: mail")]
    paused = client.create(name="rests", delay="1h", target_type="NOOP")
    client.act(paused["id"], "pause")
    for command in ("show", "edit", "cancel", "rm", "run", "history", "explain", "upcoming"):
        wanted = {"backup", "rests", *(task["id"] for task in [*tasks, paused])}
        # On a busy machine the limit of 0.2 s may pass before the names are there.
        found = until(lambda: (x := dict(complete(command, ""))) and set(x) == wanted and x, why=f"{command} does not offer {wanted}")
        assert found[tasks[0]["id"]] == "backup" and found["backup"] == tasks[0]["id"]
    assert complete("resume", "") == [("rests", paused["id"]), (paused["id"], "rests")]
    assert complete("show", tasks[0]["id"][:30])[0][0][:30] == tasks[0]["id"][:30]
    assert complete("show", "zz") == [] and complete("show", "--json", "zz") == []
    assert len(complete("show", tasks[0]["id"], "")) == 5, "one more"


def test_names_are_completed_if_one_task_has_them(complete, client):
    for name in ("report", "report-daily", "report-daily", "re port", "Report"):
        client.create(name=name, delay="1h", target_type="NOOP")
    tick = client.create(name="rest", interval_seconds=1, target_type="NOOP")
    until(lambda: client.get(f"/v1/tasks/{tick['id']}/executions").json["executions"])  # occurrences have its name, too
    assert [name for name, _ in complete("history", "re")] == ["report", "rest"]
    assert complete("pause", "rest") == [("rest", tick["id"])]


def test_dead_letters_are_offered_for_retry(complete, client):
    dead = client.create(name="dead", target_type="HTTP_CALLBACK", target_config={"url": "http://127.0.0.1:1/"},
                         retry={"max_attempts": 1})
    client.create(name="lives", delay="1h", target_type="NOOP")
    client.wait_for(dead["id"], "FAILED")
    assert complete("retry", "") == [("dead", dead["id"]), (dead["id"], "dead")]


@pytest.mark.own_server
def test_names_of_queues_calendars_tenants_and_keys_are_offered(complete, client):
    assert client.request("PUT", "/v1/queues/mail", {"weight": 5}).status in (200, 201)
    assert client.request("PUT", "/v1/calendars/holidays", {"excluded": ["2027-01-01"]}).status in (200, 201)
    assert client.post("/v1/tenants", {"name": "acme"}).status == 201
    key = client.post("/v1/api-keys", {"name": "deploy", "scopes": ["tasks:read"]}).json["id"]
    assert ("mail", "") in complete("add", "--queue", "") and complete("list", "--queue", "ma") == [("mail", "")]
    assert complete("add", "--calendar", "") == [("holidays", "")]
    assert ("acme", "") in complete("key", "create", "x", "--tenant", "")
    assert ("mail", "") in complete("queue", "pause", "m")
    assert complete("queue", "list", "m") == []
    assert complete("calendar", "show", "") == [("holidays", "")]
    assert ("acme", "") in complete("tenant", "disable", "")
    assert (key, "deploy") in complete("key", "revoke", "")


def test_the_server_of_the_line_itself_is_asked(belfry, server, client):
    task = client.create(name="there", delay="1h", target_type="NOOP")
    done = belfry("__complete", "--", "show", "--server", server.url, "--data-dir", server.data_dir, "",
                  env={"BELFRY_SERVER": "http://127.0.0.1:1"})
    assert f"{task['id']}\tthere" in done.lines


@pytest.mark.parametrize("how", ["refused", "silent", "no URL", "wrong key"])
@pytest.mark.shared
def test_without_an_answer_nothing_is_offered_and_nothing_said(belfry, server, how):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes connections and never answers
        url = {"refused": "http://127.0.0.1:1", "silent": f"http://127.0.0.1:{listener.getsockname()[1]}", "no URL": "x",
               "wrong key": server.url}[how]
        begun = time.monotonic()
        done = belfry("__complete", "--", "show", "0", env={"BELFRY_SERVER": url, "BELFRY_KEY": "wrong"})
    assert (done.code, done.out, done.err) == (0, "", "")
    assert time.monotonic() - begun < HURRY_S


ZSH = r"""
compdef() { :; }
_describe() { print -rl -- "${(@P)2}"; }
_files() { print files; }
words=(belfry "$@") CURRENT=$(($# + 1))
eval "$(belfry completion zsh)"
"""


def test_zsh_keeps_colons_of_a_name_apart_from_its_description(build, server, client):
    assert client.request("PUT", "/v1/queues/mail:fast", {"weight": 5}).status in (200, 201)
    done = subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", "queue", "show", "mail"], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, env={**os.environ, "PATH": f"{build}:{os.environ['PATH']}",
                                                  "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)})
    assert (done.stdout, done.stderr) == ("mail\\:fast:\n", "")
