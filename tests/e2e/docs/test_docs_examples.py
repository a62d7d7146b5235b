"""The examples of docs/: every block that is marked `console` is run, command by command, in one shell for each page.

A line behind '$ ' is a command; it goes on in lines behind '> '. The lines below are its output. If a page shows output, the
real one has the same shape (test_docs.VARYING); if it shows none, only the exit status counts. All pages share one server. Each has a tenant
of its own there, or is an operator's and has the admin key of `default`."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, run
from server import Receiver, Reply, Server
from test_docs import read, shape

OPERATORS = ("SECURITY", "TENANTS")  # pages whose examples need the admin key of `default`
PAGES = sorted(p.stem for p in (ROOT / "docs").glob("*.md"))
TIMEOUT_S = 60

# Examples that need a broker, PostgreSQL or services have tests of their own: test_docs_brokers.py, test_docs_operations.py, test_docs_workflows.py.
ELSEWHERE = ("EVENTS", "MESSAGES", "OPERATIONS", "RABBITMQ", "REDIS", "TOPOLOGIES", "WORKFLOWS")


def examples(page):
    """[(command, shown output)]"""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", read(f"docs/{page}.md"), re.M | re.S):
        assert block.startswith("$ "), f"docs/{page}.md: a console block begins with a command"
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines(keepends=True)
            n = 1
            while n < len(lines) and lines[n].startswith("> "):
                n += 1
            found.append((lines[0] + "".join(line[2:] for line in lines[1:n]), "".join(lines[n:])))
    return found


def follow(page, folder, build, env, known):
    """Runs the commands of a page in one shell, as a reader would, and compares what they print. known: {text of the page: what it stands
    for here}."""
    folder.mkdir(exist_ok=True)
    found = examples(page)
    assert found, f"docs/{page}.md has no example"
    script = "set -e\n"
    for i, (command, _) in enumerate(found):
        for shown, real in known.items():
            command = command.replace(shown, str(real))
        script += f"{{ {command}}} >{folder}/out{i}\n"
    quick = f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"  # the tests of each command look for leaks
    environment = {**os.environ, "PATH": f"{build}:{os.environ['PATH']}", "TZ": "UTC", "ASAN_OPTIONS": quick.lstrip(":"), **env}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, env=environment, check=False, timeout=TIMEOUT_S)
    ran = len(list(folder.glob("out*")))
    assert done.returncode == 0, f"docs/{page}.md, command {ran} of {len(found)}: {found[ran - 1][0]}\n{done.stderr}"
    for i, (command, output) in enumerate(found):
        for shown, real in known.items():
            output = output.replace(shown, str(real))
        if output.strip():
            assert shape((folder / f"out{i}").read_text()) == shape(output), f"docs/{page}.md: {command}"


@pytest.fixture(scope="session")
def shared_server(build, prepared_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "data"
    shutil.copytree(prepared_store, folder)
    server = Server(folder).start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def shared_receiver():
    """Answers 200, and at /status/404 404, as `belfry sink` does."""
    receiver = Receiver()
    receiver.answer("/status/404", Reply(404))
    yield receiver
    receiver.close()


def key_of(page, server):
    """Of a tenant of its own, unless the page is an operator's."""
    if page in OPERATORS:
        return server.key
    env = {"BELFRY_SERVER": server.url, "BELFRY_KEY": server.key}
    tenant = page.lower()
    assert run("tenant", "create", tenant, env=env).code == 0
    made = run("key", "create", "reader", "--scopes", "admin", "--tenant", tenant, env=env)
    return re.search(r"bf_\w+", made.out)[0]


RUN_HERE = [page for page in PAGES if page not in ELSEWHERE and examples(page)]


def test_every_page_about_use_has_an_example():
    """Lists of terms, figures and comparisons have none; docs/SQL.md has queries instead (test_docs_sql.py)."""
    without = {page for page in PAGES if not examples(page)}
    assert without == {"ARCHITECTURE", "BENCHMARKS", "COMPARISON", "FROM_OTHERS", "GLOSSARY", "README", "SQL"}


def test_the_index_lists_every_page():
    told = set(re.findall(r"\]\((\w+)\.md\)", read("docs/README.md")))
    assert told == set(PAGES) - {"README"}


def anchors(path):
    """Of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_links_lead_to_a_heading_that_exists(page):
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", page.read_text()):
        target = page.parent / link if link else page
        assert anchor in anchors(target), f"{page.name} links to {link}#{anchor}"


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_examples_of_a_page_do_what_it_shows(page, build, shared_server, shared_receiver, tmp_path):
    env = {"BELFRY_SERVER": shared_server.url, "BELFRY_KEY": key_of(page, shared_server), "BELFRY_DATA_DIR": str(shared_server.data_dir)}
    follow(page, tmp_path / "page", build, env, {"http://127.0.0.1:9000": shared_receiver.url("").rstrip("/")})
