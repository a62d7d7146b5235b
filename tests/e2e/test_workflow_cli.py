"""belfry workflow: definitions in files, checked and drawn without a server; and, with one, runs."""

import json

import pytest

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
    assert lines[0] == "13: steps[2].prioritty: is unknown, did you mean 'priority'?"
    assert lines[1] == "6: steps[1].depends_on[0]: no step is named 'extrct'; did you mean 'extract'?"
    assert lines[2] == "12: steps[2].depends_on[0]: no step is named 'lod'; did you mean 'load'?"
    assert sorted(line.split(": ")[1] for line in lines[3:]) == [
        "steps[0].queue", "steps[0].target_config.methd", "steps[1].retry.max_attempts"]


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
    again = done(ask("rerun", run, "--from", "b"), " is ").lines[0].split()[0]
    assert again != run
    done(ask("show", "--watch", again))
    assert len(receiver.to("/b")) == 3


def test_a_signal_is_sent_and_the_end_is_estimated(ask, write, client):
    from server import until
    ask("apply", write("signed.yaml", SIGNED))
    first = ask("run", "signed", "-q").out.strip()
    until(lambda: "awaits the signal approved, 0 of 1 received" in ask("show", first).out)
    assert "Ends " not in ask("show", first).out
    assert done(ask("pause", first)).out == f"{first} is RUNNING, paused\n"
    assert done(ask("resume", first)).out == f"{first} is RUNNING\n"
    assert done(ask("signal", first, "approved", "--payload", '{"by": "me"}')).out == "approved received, 1 of 1, for step sign\n"
    done(ask("show", "--watch", first), "b COMPLETED")
    second = ask("run", "signed", "-q").out.strip()
    until(lambda: "awaits the signal approved" in ask("show", second).out)
    done(ask("show", second), "if it goes as the last 1 completed run\n")
    assert done(ask("signal", second, "approved", "--reject", "--by", "ann")).out.startswith("approved received")
    assert ask("show", "--watch", second).code == 1
    third = ask("run", "signed", "-q", "--in", "1h", "--priority", "7").out.strip()
    assert client.get(f"/v1/workflows/{third}").json["priority"] == 7
    assert done(ask("cancel", third, "--compensate")).out == f"{third} is CANCELLED\n"


def test_a_terminal_is_redrawn_until_the_run_ends(ask, write):
    path = write("late.json", json.dumps({"steps": [
        {"name": "a", "target_type": "NOOP"}, {"name": "b", "depends_on": ["a"], "delay": "2s", "target_type": "NOOP"}]}))
    run = ask("run", path, "-q").out.strip()
    watched = done(ask("show", "--watch", run, tty=True), "\033[?1049h", "\033[?1049l")
    frames, end = watched.out.split("\033[?1049l")
    assert frames.count("\033[H") >= 2 and "b     SCHEDULED" in frames
    assert "\033[32m*  b     COMPLETED" in end and "Critical path (*): a " in end
    assert "\033[32m" in ask("graph", run, tty=True).out and "\033[" not in ask("graph", run).out
