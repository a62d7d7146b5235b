"""belfry workflow: definitions in files, checked and drawn without a server; and, with one, runs."""

import json

import pytest

pytestmark = [pytest.mark.tenant, pytest.mark.text("words of commands")]

ETL = """\
# nightly
steps:
  - name: extract
    target_config: {url: 'https://example.com/extract'}
  - name: users
    depends_on: [extract]
    target_type: NOOP
  - name: orders
    depends_on: [extract]
    target_type: NOOP
  - name: load
    depends_on: [users, orders]
    target_type: NOOP
"""


@pytest.fixture
def alone(belfry, tmp_path):
    """Without a server: nothing listens there."""
    def run(*args, **more):
        env = {"HOME": str(tmp_path), "BELFRY_SERVER": "http://127.0.0.1:1", "BELFRY_KEY": ""}
        return belfry("workflow", *args, env=env, **more)
    return run


@pytest.fixture
def write(tmp_path):
    def run(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)
    return run


# ---- lint ----


def test_a_valid_definition_needs_no_server(alone, write):
    path = write("etl.yaml", ETL)
    done = alone("lint", path)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{path} is valid: 4 steps, 4 edges, 3 layers\n"
    assert json.loads(alone("lint", path, "--json").out) == {"valid": True, "steps": 4, "edges": 4}


def test_a_name_in_the_file_is_explained(alone, write):
    done = alone("lint", write("named.yaml", "name: etl\n" + ETL))
    assert done.code == 1 and "named.yaml:1: name: is not a part of a definition" in done.err and "--name" in done.err, done


def test_each_error_has_its_line_and_its_path(alone, write):
    path = write("bad.yaml", """\
steps:
  - name: extract
    queue: "a b"
    target_config: {url: 'https://example.com/x', methd: GET}
  - name: load
    depends_on: [extrct]
    retry:
      max_attempts: 0
    target_config: {url: 'https://example.com/y', body: {$ref: /steps/extract/output}}
  - name: tell
    target_type: NOOP
    depends_on: [lod]
    prioritty: 3
""")
    done = alone("lint", path)
    assert (done.code, done.out) == (1, "")
    lines = [line.removeprefix(path + ":") for line in done.err.splitlines()]
    assert [line.split(": ")[:2] for line in lines] == [
        ["3", "steps[0].queue"], ["4", "steps[0].target_config.methd"], ["6", "steps[1].depends_on[0]"],
        ["8", "steps[1].retry.max_attempts"], ["12", "steps[2].depends_on[0]"], ["13", "steps[2].prioritty"]]
    assert lines[2] == "6: steps[1].depends_on[0]: no step is named 'extrct'; did you mean 'extract'?"
    assert lines[4] == "12: steps[2].depends_on[0]: no step is named 'lod'; did you mean 'load'?"
    assert lines[5] == "13: steps[2].prioritty: is unknown, did you mean 'priority'?"


def test_errors_of_all_stages_come_together_and_none_that_follows_from_another(alone, write):
    path = write("all.yaml", """\
steps:
  - name: a
    target_confg: {url: 'https://example.com/a'}
  - name: a
    target_type: NOOP
  - name: "b b"
    target_type: NOOP
  - target_type: NOOP
  - name: c
    depends_on: [nowhere, elsewhere, a]
    target_config: {url: 'https://example.com/c', body: {$ref: /steps/nowhere/output}}
  - name: d
    depends_on: [e]
    target_type: NOOP
  - name: e
    depends_on: [d]
    target_type: NOOP
  - name: f
  - name: g
    map: {ovr: {$ref: /input}}
    target_config: {url: 'https://example.com/g', body: {$ref: /item}}
  - name: h
    when: {ref: /input/x, op: like, value: 1}
    target_config: {body: {$ref: /inptu/x}}
result: {$ref: /steps/zzz/output}
""")
    done = alone("lint", path)
    assert (done.code, done.out) == (1, "")
    found = [line.removeprefix(path + ":").split(": ")[:2] for line in done.err.splitlines()]
    assert found == [
        ["3", "steps[0].target_confg"], ["4", "steps[1].name"], ["6", "steps[2].name"], ["8", "steps[3].name"],
        ["10", "steps[4].depends_on[0]"], ["10", "steps[4].depends_on[1]"], ["11", "steps[4].target_config.body.$ref"],
        ["16", "steps[6].depends_on[0]"], ["18", "steps[7].target_config"], ["20", "steps[8].map.ovr"],
        ["23", "steps[9].when.op"], ["24", "steps[9].target_config.body.$ref"], ["25", "result.$ref"]], done.err


def test_json_has_lines_too(alone, write):
    path = write("x.json", '{"steps": [\n {"name": "a",\n  "target_type": "NOOP",\n  "depends_on": ["b"]}]}')
    assert alone("lint", path).err == f"{path}:4: steps[0].depends_on[0]: no step is named 'b'\n"
    path = write("y.json", '{"steps": [\n {"name": "a",\n  ]}')
    assert alone("lint", path).err.startswith(f"{path}:3: steps[0]: is not valid JSON: ")


def test_a_cycle_is_printed_as_a_path(alone, write):
    path = write("c.yml", "steps:\n- {name: a, target_type: NOOP, depends_on: [b]}\n- {name: b, target_type: NOOP, depends_on: [a]}\n")
    assert alone("lint", path).err == f"{path}:3: steps[1].depends_on[0]: the steps wait for each other in a cycle: b → a → b\n"


def test_yaml_that_is_wrong_or_surprising_is_refused(alone, write):
    for text, error in [("steps:\n\t- x\n", ":2: is not valid YAML: "),
                        ("steps: []\nsteps: []\n", ":2: the key 'steps' is given twice, in lines 1 and 2"),
                        ("steps: !!python/object x\n", ":1: the tag "), ("", ": is empty")]:
        path = write("y.yaml", text)
        done = alone("lint", path)
        assert done.code == 1 and done.err.startswith(path + error), done


def test_words_that_make_no_sense_are_refused(alone, write):
    assert "lint needs a FILE" in alone("lint").err
    assert "has no verb 'lnit'; did you mean 'lint'?" in alone("lnit", "x").err
    assert "--dot is for graph, not for lint" in alone("lint", "x.yaml", "--dot").err
    assert "No such file" in alone("lint", "/nowhere/x.yaml").err
    assert "is neither the name of a definition nor a file" in alone("run", "a b").err
    assert "--from is missing" in alone("rerun", "x").err
    assert "needs the name of a signal" in alone("signal", "019c3f2e-7a40-7000-8000-000000000001").err
    assert "--input is not valid JSON" in alone("run", "etl", "--input", "{").err
    assert "is not a valid name of a definition: give --name" in alone("apply", "-").err
    assert alone("list").code == 3


# ---- graph ----


def test_a_file_is_drawn(alone, write):
    path = write("etl.yaml", ETL)
    drawn = alone("graph", path)
    assert (drawn.code, drawn.err) == (0, "")
    assert [line.strip() for line in drawn.lines[:4]] == ["┌─────────┐", "│ extract │", "└────┬────┘", "┌─────┴─────┐"]
    assert drawn.out.count("▼") == 3
    dot = alone("graph", path, "--dot").out
    assert dot.startswith("digraph workflow {\n") and dot.count("->") == 4
    mermaid = alone("graph", path, "--mermaid").out
    assert mermaid.startswith("flowchart TD\n") and mermaid.count("-->") == 4
    assert "exclude each other" in alone("graph", path, "--dot", "--mermaid").err


def test_a_wide_graph_is_a_tree(alone, write):
    steps = [{"name": "start", "target_type": "NOOP"}]
    steps += [{"name": f"part{i}", "target_type": "NOOP", "depends_on": ["start"]} for i in range(100)]
    steps += [{"name": "end", "target_type": "NOOP", "depends_on": [f"part{i}" for i in range(100)]}]
    drawn = alone("graph", write("wide.json", json.dumps({"steps": steps})))
    assert drawn.lines[0] == "start"
    assert drawn.lines[1] == "├─ part0"
    assert drawn.lines[2].startswith("│  ↓ end  ↳ also after part1, part2, ") and drawn.lines[2].endswith(" and 91 more")
    assert drawn.lines[-1] == "└─ part99"


# ---- with a server ----


@pytest.fixture
def ask(belfry, server, tmp_path):
    def run(*args, **more):
        env = {"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": ""}
        return belfry("workflow", *args, env=env, **more)
    return run


def done(result, *parts, code=0):
    assert result.code == code, result
    for part in parts:
        assert part in result.out, (part, result)
    return result


CHAIN = """\
steps:
  - name: a
    target_type: NOOP
  - name: b
    depends_on: [a]
    target_type: NOOP
  - name: c
    depends_on: [b]
    target_type: NOOP
result: {day: {$ref: /input/day}}
"""

SIGNED = """\
steps:
  - {name: a, target_type: NOOP}
  - {name: sign, depends_on: [a], await: {signal: approved}}
  - {name: b, depends_on: [sign], target_type: NOOP}
"""


def test_a_hidden_secret_is_a_note_and_apply_keeps_the_value(ask, alone, write):
    path = write("kept.yaml", "steps:\n  - name: a\n    target_config:\n      url: 'https://example.com/'\n"
                              "      headers: {Authorization: 'first'}\n")
    assert ask("apply", path).out == "kept version 1\n"
    path = write("kept.yaml", "steps:\n  - name: a\n    target_config:\n      url: 'https://example.com/'\n"
                              "      headers: {Authorization: '***'}\n")
    done = alone("lint", path)
    assert done.code == 0 and f"{path}:5: note: steps[0].target_config.headers.Authorization is ***" in done.err, done
    assert ask("apply", path).out == "kept version 1, unchanged\n"
    assert "is ***" in ask("apply", path, "--name", "new").err


def test_a_definition_is_applied_listed_drawn_and_removed(ask, write):
    path = write("chain.yaml", CHAIN)
    done(ask("apply", path), "chain version 1\n")
    assert ask("apply", write("chain.yaml", "# a comment is no change\n\n" + CHAIN)).out == "chain version 1, unchanged\n"
    done(ask("apply", path, "--name", "other"), "other version 1\n")
    listed = done(ask("definitions"), "NAME", "VERSION", "CREATED")
    assert [line.split()[:2] for line in listed.lines[1:]] == [["chain", "1"], ["other", "1"]]
    assert ask("graph", "chain").out == ask("graph", path).out
    done(ask("rm", "other"), "other removed\n")
    assert ask("rm", "other").code == 1
    assert ask("apply", write("bad.yaml", "steps: []\n")).code == 1


def test_a_run_is_waited_for_and_shown(ask, write):
    ask("apply", write("chain.yaml", CHAIN))
    ended = done(ask("run", "chain", "--input", '{"day": 7}', "--name", "nightly", "--wait"), "It is COMPLETED\n", '{"day":7}\n')
    run = ended.lines[0]
    shown = done(ask("show", run), "Name", "nightly", "Workflow", "chain", "Critical path (*): a ", " → b ", " → c ", "Steps: 3 COMPLETED of 3\n")
    rows = [line.split() for line in shown.lines if line.startswith("*")]
    assert [row[1:3] for row in rows] == [["a", "COMPLETED"], ["b", "COMPLETED"], ["c", "COMPLETED"]]
    assert json.loads(ask("show", "nightly", "--json").out)["result"] == {"day": 7}
    assert json.loads(ask("run", "chain", "--input", '{"day": 8}', "--wait", "--json").out)["result"] == {"day": 8}
    steps = done(ask("steps", run), "STEP", "KIND", "WAITED")
    assert [line.split()[:3] for line in steps.lines[1:]] == [[x, "STEP", "COMPLETED"] for x in "abc"]
    assert [line.split()[0] for line in ask("steps", run, "--step", "b").lines[1:]] == ["b"]
    listed = done(ask("list"), "WORKFLOW", "TOOK", "COMPLETED")
    assert len(listed.lines) == 3
    assert ask("list", "--name", "nightly").lines[1].startswith(run)
    assert "there are no such runs" in ask("list", "--status", "FAILED").err
    assert listed.lines[0].split() == ["ID", "NAME", "WORKFLOW", "STATUS", "STARTED", "TOOK", "ERROR"]
    assert ask("list", "--name", "nightly").lines[1].split()[1:5] == ["nightly", "chain", "v1", "COMPLETED"]
    assert len(done(ask("list", "--workflow", "chain")).lines) == 3 and "there are no such runs" in ask("list", "--workflow", "other").err


def test_a_run_of_a_file_that_fails_is_an_exit_code(ask, write, receiver):
    from server import Reply
    receiver.answer("/b", Reply(status=400), Reply())
    path = write("x.json", json.dumps({"steps": [
        {"name": "a", "target_type": "NOOP"},
        {"name": "b", "depends_on": ["a"], "target_config": {"url": receiver.url("/b")}}]}))
    failed = ask("run", path, "--wait")
    assert failed.code == 1 and "It is FAILED: " in failed.out
    run = failed.lines[0]
    done(ask("show", run), "Failed step", "FAILED")
    assert "✗ b" in ask("graph", run).out and "✓ a" in ask("graph", run).out
    done(ask("retry", run, "--step", "b"), run)
    watched = done(ask("show", "--watch", run), "b COMPLETED\n")
    assert "COMPLETED" in watched.out
    again = done(ask("rerun", run, "--from", "b"), "The new run ", " is ").lines[0].split()[3]
    assert again != run
    done(ask("show", "--watch", again))
    assert len(receiver.to("/b")) == 3


def test_a_signal_is_sent_and_no_end_is_estimated_before(ask, write, client):
    from server import until
    ask("apply", write("signed.yaml", SIGNED))
    first = ask("run", "signed", "-q").out.strip()
    until(lambda: "awaits the signal approved, 0 of 1 received" in ask("show", first).out)
    done(ask("show", first), "Ends: not before the signal 'approved'\n")
    assert done(ask("pause", first)).out == (f"Run {first} is RUNNING, paused: running steps finish, and no step starts\n"
                                             f"'belfry workflow resume {first}' lets it go on\n")
    done(ask("show", first), f"It is paused: 'belfry workflow resume {first}' lets it go on\n")
    assert done(ask("resume", first)).out == f"Run {first} is RUNNING\n'belfry workflow show --watch {first}' follows it\n"
    assert done(ask("signal", first, "approved", "--payload", '{"by": "me"}')).out == "approved received, 1 of 1, for step sign\n"
    done(ask("show", "--watch", first), "b COMPLETED")
    second = ask("run", "signed", "-q").out.strip()
    until(lambda: "awaits the signal approved" in ask("show", second).out)
    done(ask("show", second), "Ends: not before the signal 'approved'\n")
    assert done(ask("signal", second, "approved", "--reject", "--by", "ann")).out.startswith("approved rejected, 0 of 1 approvals, 1 rejection, for step")
    assert ask("show", "--watch", second).code == 1
    third = ask("run", "signed", "-q", "--in", "1h", "--priority", "7").out.strip()
    assert client.get(f"/v1/workflows/{third}").json["priority"] == 7
    assert done(ask("cancel", third, "--compensate")).out == f"Run {third} is CANCELLED\n'belfry workflow show {third}' prints its steps\n"
    assert f"{third}: the run is CANCELLED and cannot be paused; retry it, rerun it, or start a new run\n" in ask("pause", third).err


def test_a_terminal_is_redrawn_until_the_run_ends(ask, write):
    path = write("late.json", json.dumps({"steps": [
        {"name": "a", "target_type": "NOOP"}, {"name": "b", "depends_on": ["a"], "delay": "2s", "target_type": "NOOP"}]}))
    run = ask("run", path, "-q").out.strip()
    watched = done(ask("show", "--watch", run, tty=True), "\033[?1049h", "\033[?1049l")
    frames, end = watched.out.split("\033[?1049l")
    assert frames.count("\033[H") >= 2 and "b     SCHEDULED" in frames
    assert "\033[32m*  b     COMPLETED" in end and "Critical path (*): a " in end
    assert "\033[32m" in ask("graph", run, tty=True).out and "\033[" not in ask("graph", run).out


# ---- steps ----


def test_the_list_of_steps_says_what_each_waits_for(ask, write, receiver):
    from server import Reply, until
    receiver.answer("/b", *(Reply(status=503),) * 2)
    path = write("x.json", json.dumps({"steps": [
        {"name": "sign", "await": {"signal": "go"}},
        {"name": "later", "delay": "1h", "target_type": "NOOP"},
        {"name": "b", "target_config": {"url": receiver.url("/b")},
         "retry": {"max_attempts": 2, "base_delay_ms": 3600000, "max_delay_ms": 3600000, "jitter": "NONE"}},
        {"name": "end", "depends_on": ["sign", "b"], "target_type": "NOOP"}]}))
    run = ask("run", path, "-q").out.strip()
    until(lambda: "attempt 2 comes" in ask("steps", run).out)
    rows = {line.split()[0]: line for line in ask("steps", run).lines[1:]}
    assert "waits for signal 'go'" in rows["sign"] and rows["sign"].split()[4] != "-"
    assert "starts in " in rows["later"] and "attempt 2 comes in " in rows["b"] and "503" in rows["b"]
    assert rows["end"].rstrip().endswith("waits for sign, b")
    assert ask("steps", run, "--step", "end").lines[1].endswith("waits for sign, b"), "parents that are not listed are known, too"
    assert "waits for sign, b\n" in ask("show", run).out
    assert ask("signal", run, "go").code == 0
    until(lambda: ask("steps", run, "--step", "end").lines[1].rstrip().endswith("waits for b"), why="it waits for a step that has ended")
    assert "no step matches" in ask("steps", run, "--status", "FAILED").err
    planned = ask("run", path, "-q", "--in", "1h").out.strip()
    assert "the run has not started: it has no steps yet" in ask("steps", planned).err
    drawn = ask("graph", planned)
    assert drawn.code == 1 and "the run has not started: it has no steps yet" in drawn.err and "Nor is it" not in drawn.err


def test_a_step_is_shown_and_decided_on_by_hand(ask, write, receiver, client):
    from server import Reply, until
    receiver.answer("/b", Reply(status=400))
    receiver.answer("/item", *(Reply(body=b'{"n": 7}'),) * 2)
    path = write("x.json", json.dumps({"steps": [
        {"name": "m", "map": {"over": [1, 2]}, "target_config": {"url": receiver.url("/item"), "body": {"$ref": "/item"}}},
        {"name": "b", "depends_on": ["m"], "target_config": {"url": receiver.url("/b")}},
        {"name": "late", "depends_on": ["b"], "delay": "1h", "target_type": "NOOP"},
        {"name": "held", "await": {"signal": "go"}},
        {"name": "last", "depends_on": ["late", "held"], "target_config": {"url": receiver.url("/last"), "body": {"$ref": "/steps/held/output"}}}]}))
    run = ask("run", path, "-q", "--name", "hand").out.strip()
    until(lambda: "HTTP 400" in ask("show", run).out)
    shown = done(ask("show", "hand", "b"), "HTTP 400", "FAILED", receiver.url("/b"), "Attempts")
    ids = {line.split()[0]: line for line in ask("steps", run, "--ids").lines[1:]}
    assert shown.lines[0].split()[1] in ids["b"]
    item = done(ask("show", run, "m/1"), "COMPLETED", '{"n": 7}')
    assert item.lines[0] == ask("show", run, "m[1]").lines[0] and item.lines[0].split()[1] in ids["m[1]"]
    assert json.loads(ask("show", run, "m/1", "--json").out)["id"] in ids["m[1]"]
    done(ask("show", run, "m"), "Items: 2 COMPLETED of 2")
    few = client.post("/v1/api-keys", {"name": "few", "scopes": ["workflows:read"]}).json["key"]  # it may not read tasks
    assert ask("show", run, "m/1", "--key", few).lines[0] == item.lines[0]
    assert "step 'm' has no item 2" in ask("show", run, "m/2").err
    assert "no step is named 'lastt'; did you mean 'last'?" in ask("show", run, "lastt").err
    done(ask("show", run, "--ids"), ids["b"].split()[6], "waits for signal 'go'", "  ID  ")
    made = done(ask("step", "force-complete", run, "held", "--output", '{"by": "hand"}'), "Step held is COMPLETED, by hand\n", f"show --watch {run}")
    assert made.lines[1] == f"'belfry workflow show --watch {run}' follows the run"
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "FAILED")
    done(ask("show", run), "completed by hand")
    done(ask("step", "force-complete", run, "b", "--output", "17"), "Step b is COMPLETED, by hand\n")
    until(lambda: "SCHEDULED" in ask("show", run, "late").out)
    done(ask("step", "run-now", run, "late"), "Step late is SCHEDULED, by hand\n")
    until(lambda: client.get(f"/v1/workflows/{run}").json["status"] == "COMPLETED")
    assert [c.body for c in receiver.to("/last")] == [b'{"by":"hand"}']
    for step, output in (("held", '{"by":"hand"}'), ("b", "17")):
        assert ["".join(line.split()[1:]) for line in ask("show", run, step).lines if line.startswith("Output")] == [output]


def test_a_step_is_skipped_and_wrong_words_are_refused(ask, alone, write):
    from server import until
    run = ask("run", write("signed.yaml", SIGNED), "-q").out.strip()
    until(lambda: "awaits the signal approved" in ask("show", run).out)
    done(ask("show", run), "waits for sign\n")
    assert "the step is COMPLETED" in ask("step", "skip", run, "a").err
    assert "is BLOCKED and cannot be run now" in ask("step", "run-now", run, "b").err
    done(ask("step", "skip", run, "sign"), "Step sign is SKIPPED, by hand\n")
    until(lambda: "skipped by hand" in ask("show", run).out)
    mapped = ask("run", write("map.json", json.dumps({"steps": [{"name": "m", "target_type": "WORKER", "map": {"over": [1, 2]}}]})), "-q").out.strip()
    until(lambda: "m[1]" in ask("steps", mapped).out)
    done(ask("step", "skip", mapped, "m/0"), "Step m[0] is SKIPPED, by hand\n")
    done(ask("step", "force-complete", mapped, "m[1]", "--output", "7"), "Step m[1] is COMPLETED, by hand\n")
    until(lambda: "COMPLETED" in ask("show", mapped).lines[1])
    for words, error in [(["kill", "x", "y"], "step cannot 'kill'"), (["skip", "x"], "step skip needs a run and a step"),
                         (["skip", "x", "y", "--output", "1"], "--output is for step force-complete, not for step skip"),
                         (["skip", "x", "y/z"], "'y/z' is no step"), (["skip", "x", "y z"], "'y z' is no step")]:
        wrong = alone("step", *words)
        assert wrong.code == 2 and error in wrong.err, wrong
    assert "there is no run whose id or name is 'nobody'; 'belfry workflow list' prints them" in ask("pause", "nobody").err


def test_a_run_that_waits_says_for_what(ask, write):
    from server import until
    path = write("signed.yaml", SIGNED)
    first = ask("run", path, "-q", "--concurrency-key", "one").out.strip()
    until(lambda: "awaits the signal approved" in ask("show", first).out)
    second = ask("run", path, "-q", "--concurrency-key", "one").out.strip()
    until(lambda: "BLOCKED" in ask("show", second).out)
    done(ask("show", second), "aits for a slot of the concurrency key 'one'", first)
    assert ask("signal", first, "approved").code == 0
    until(lambda: "awaits the signal approved" in ask("show", second).out)
    done(ask("show", second), "Ends: not before the signal 'approved'\n")


def test_a_sub_workflow_is_found_by_its_id(ask, write):
    from server import until
    ask("apply", write("signed.yaml", SIGNED))
    run = ask("run", write("outer.json", json.dumps({"steps": [
        {"name": "sub", "target_type": "WORKFLOW", "target_config": {"workflow": "signed"}}]})), "-q").out.strip()
    until(lambda: "Step sub is a run: " in ask("show", run).out)
    sub = ask("show", run).out.split("Step sub is a run: 'belfry workflow show ")[1].split("'")[0]
    done(ask("show", sub), "Step of", run)
    done(ask("show", run, "sub"), f"It is a run: 'belfry workflow show {sub}'\n")


# ---- definitions that are used ----


def test_a_definition_that_a_schedule_uses_is_not_removed_by_mistake(ask, belfry, server, write, tmp_path):
    env = {"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": ""}
    ask("apply", write("chain.yaml", CHAIN))
    task = belfry("add", "-q", "--cron", "0 22 * * *", "--name", "nights", "--workflow", "chain", "--input", '{"day": 3}', env=env).out.strip()
    refused = ask("rm", "chain")
    assert refused.code == 1 and "chain is used by 1 recurring task, whose next run fails without it; cancel them first, or remove it with --force:" in refused.err
    assert refused.err.splitlines()[1].split() == [task, "nights"]
    assert ask("list").out == ""
    assert belfry("run", "nights", env=env).code == 0
    from server import until
    until(lambda: "COMPLETED" in ask("list", "--name", "nights").out)
    done(ask("show", "nights"), "Occurrence of", task, '{"day":3}')
    forced = done(ask("rm", "chain", "--force"), "chain removed\n")
    assert "chain is used by 1 recurring task" in forced.err and task in forced.err
    key = belfry("key", "create", "few", "--scopes", "workflows:write", env=env).out.split()[0]  # it may not read tasks
    ask("apply", write("other.yaml", CHAIN))
    done(ask("rm", "other", "--key", key), "other removed\n")


def test_add_takes_workflows_and_names_of_parents(ask, belfry, server, client, write, tmp_path):
    env = {"HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": ""}
    add = lambda *args: belfry("add", "-q", *args, env=env)
    ask("apply", write("chain.yaml", CHAIN))
    run = done(add("--target", "WORKFLOW", "--workflow", "chain", "--version", "1", "--input", '{"day": 5}', "--deadline", "1h", "--in", "1h", "--name", "a:b")).out.strip()
    found = client.get(f"/v1/workflows/{run}").json
    assert (found["workflow"], found["version"], found["input"]) == ("chain", 1, {"day": 5})
    child = done(add("--noop", "--after", "a:b:must-finish")).out
    waits = client.get(f"/v1/tasks/{child.strip()}/dependencies").json
    assert run in json.dumps(waits) and "MUST_FINISH" in json.dumps(waits)
    assert "there is no task whose id or name is 'nobody'" in add("--noop", "--after", "nobody").err
    for words, error in [(["--target", "WORKFLOW"], "WORKFLOW needs --workflow NAME"), (["--input", "{}", "--noop"], "--input requires --workflow"),
                         (["--workflow", "x", "http://x/"], "it takes no URL"), (["--workflow", "x", "-d", "1"], "its data is --input"),
                         (["--workflow", "x", "--target", "NOOP"], "is for --target WORKFLOW"), (["--workflow", "x", "--input", "{"], "--input is not valid JSON")]:
        wrong = add(*words)
        assert wrong.code == 2 and error in wrong.err, wrong


# ---- restarts and ^C ----


@pytest.mark.standalone("it is restarted")
@pytest.mark.own_server
def test_waiting_survives_a_restart_of_the_server(ask, server, write, client, build, tmp_path):
    import os
    import subprocess
    import threading
    from server import until
    env = {**os.environ, "HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": ""}
    path = write("signed.yaml", SIGNED)
    start = lambda *args: subprocess.Popen([build / "belfry", "workflow", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
    waits = start("run", path, "--wait", "--name", "waits")
    until(lambda: "awaits the signal approved" in ask("show", "waits").out)
    watches = start("show", "--watch", "waits")
    told = {waits: [], watches: []}
    readers = [threading.Thread(target=lambda p=p: told[p].extend(p.stderr)) for p in told]
    for reader in readers:
        reader.start()
    assert watches.stdout.readline()  # it has seen the run
    server.listen = f"127.0.0.1:{server.port}"
    server.stop()
    until(lambda: all(any("trying again for 5 minutes" in line for line in lines) for lines in told.values()))
    server.start()
    assert ask("signal", "waits", "approved").code == 0
    assert "It is COMPLETED\n" in waits.stdout.read() and "b COMPLETED\n" in watches.stdout.read()
    assert (waits.wait(20), watches.wait(20)) == (0, 0)
    for reader in readers:
        reader.join()
    for lines in told.values():
        assert [line.split(": ")[0] for line in lines] == ["belfry workflow"] * 2 and lines[1] == "belfry workflow: the server answers again\n", lines


@pytest.mark.standalone("it hangs")
@pytest.mark.own_server
def test_an_interrupt_leaves_the_terminal_as_it_was(ask, server, write, build, tmp_path):
    """Also if the server hangs: a second one does not wait for it."""
    import os
    import pty
    import signal
    import subprocess
    import termios
    from server import until
    run = ask("run", write("signed.yaml", SIGNED), "-q").out.strip()
    env = {**os.environ, "HOME": str(tmp_path), "BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir), "BELFRY_KEY": ""}
    for hangs in (False, True):
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        watch = subprocess.Popen([build / "belfry", "workflow", "show", "--watch", run], env=env, stdin=slave, stdout=slave, stderr=subprocess.PIPE)
        shown = b""
        while b"q: quit" not in shown:
            shown += os.read(master, 65536)
        assert termios.tcgetattr(slave) != before
        if hangs:
            server.process.send_signal(signal.SIGSTOP)
            until(lambda: watch.poll() is not None or watch.send_signal(signal.SIGINT))
            server.process.send_signal(signal.SIGCONT)
        else:
            watch.send_signal(signal.SIGINT)
            assert watch.wait(20) == 0 and watch.stderr.read() == b""
        while b"\033[?25h\033[?1049l" not in shown:
            shown += os.read(master, 65536)
        assert termios.tcgetattr(slave) == before
        os.close(slave)
        os.close(master)
