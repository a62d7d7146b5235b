"""What the end-to-end tests share: where the build is, one way to run the real binary, and on what it runs.

BELFRY_BUILD names the build directory (default: build in the repository); BELFRY_TEST_RELEASE the one that the second and further nodes of a
cluster and workers of a fleet run, and commands that have run with the same options before (default: the same).

A test that takes a server from here runs on each topology that --topology names:
    standalone   one process with the embedded store
    cluster      three nodes on one PostgreSQL database, which are asked in turn
    fleet-redis-kafka, fleet-amqp
                 two control nodes on one PostgreSQL database and three workers; queue on Redis and events on Kafka, or both on RabbitMQ
By default it is standalone, and the cluster too for tests marked cluster(when="always"): there are files of tests for clusters and fleets alone, and
./test is to end in minutes. A test about fleets runs on one of them, which its name decides, unless it is marked each_fleet. With BELFRY_TEST_LONG it is all of them, but for tests that say why not:
    @pytest.mark.standalone("why")   needs one node
    @pytest.mark.text("why")         is about what the API or a command says, which does not depend on who runs tasks: the cluster stands for the fleets
    @pytest.mark.shared              the same, and it leaves no trace
Most tests have a server of their own. Those that are marked shared or tenant share one with others: harness/sharing.py.
"""

import dataclasses
import fcntl
import itertools
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import sys
import termios
import threading
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Modules have names of their own, so that tests import the harness, and what another test offers, from whichever folder it is in.
sys.path[:0] = sorted({str(path.parent) for path in (ROOT / "tests/e2e").glob("*/test_*.py")} | {str(ROOT / "tests/support/servers")})
import passed_tests  # noqa: E402  pylint: disable=wrong-import-position

BUILD = pathlib.Path(os.environ.get("BELFRY_BUILD", ROOT / "build")).resolve()
RELEASE_BUILD = pathlib.Path(os.environ.get("BELFRY_TEST_RELEASE", BUILD)).resolve()
TIMEOUT_S = 20
LONG = bool(os.environ.get("BELFRY_TEST_LONG"))


@dataclasses.dataclass
class Done:
    """How a run ended. Bytes that are no UTF-8 are kept as surrogates."""

    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


def read_terminal(master, chunks):
    """All that is written to a pseudo terminal; its end comes as an error."""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            return
        if not chunk:
            return
        chunks.append(chunk)


run_with_sanitizers = set()  # by this process: commands, each with its options


def build_for(args):
    """A command starts five times as fast without sanitizers: each runs with them once with each set of options. Errors end a command early, so a
    command is also told apart by how many words it has."""
    key = (len(args), *map(str, args[:1]), *sorted(str(word) for word in args[1:] if str(word).startswith("-")))
    new = key not in run_with_sanitizers
    run_with_sanitizers.add(key)
    return BUILD if new else RELEASE_BUILD


def run(*args, stdin=None, tty=False, columns=200, env=None, cwd=None, timeout_s=TIMEOUT_S):
    """Runs belfry; with tty its stdout is a terminal, so many columns wide. Arguments may be bytes."""
    command = [build_for(args) / "belfry", *args]
    environment = {**os.environ, **(env or {})}
    common = {"input": stdin.encode() if stdin is not None else b"", "stderr": subprocess.PIPE, "timeout": timeout_s,
              "env": environment, "cwd": cwd, "check": False}
    if not tty:
        done = subprocess.run(command, stdout=subprocess.PIPE, **common)
        out = done.stdout
    else:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        chunks = []
        reader = threading.Thread(target=read_terminal, args=(master, chunks))
        reader.start()
        try:
            done = subprocess.run(command, stdout=slave, **common)
        finally:
            os.close(slave)
            reader.join()
            os.close(master)
        out = b"".join(chunks).replace(b"\r\n", b"\n")
    decode = lambda b: b.decode("utf-8", "surrogateescape")
    return Done(done.returncode, decode(out), decode(done.stderr))


@pytest.fixture(scope="session")
def build():
    assert (BUILD / "belfry").is_file(), f"no belfry in {BUILD}: build it, or name the build directory in BELFRY_BUILD"
    return BUILD


@pytest.fixture(scope="session")
def belfry(build):
    """belfry(*args, stdin=None, tty=False, columns=200, env=None, cwd=None): code, out, err."""
    return run


# ----------------------------------------------------------------------------------------------------------------------
# topologies

FLEETS = ("fleet-redis-kafka", "fleet-amqp")
TOPOLOGIES = ("standalone", "cluster", *FLEETS)


def pytest_addoption(parser):
    parser.addoption("--topology", choices=TOPOLOGIES, help="run on this one only; default: what each test asks for")
    parser.addoption("--phase", choices=("light", "heavy"), help="only what may run beside many others, or only what needs the machine for itself")
    parser.addoption("--passed", metavar="FILE", help="append to it what passes and what fails")
    parser.addoption("--leave-out", metavar="FILE", help="what has passed already, as --passed wrote it")
    parser.addoption("--dashboard", action="store_true", help="only the tests of the dashboard, all of them; without it the main ones run with the others")


def pytest_configure(config):
    config.addinivalue_line("markers", "standalone(why): needs one node")
    config.addinivalue_line("markers", "text(why): its subject does not depend on who runs tasks: never on a fleet")
    config.addinivalue_line("markers", "shared: leaves no trace, so that all such tests have one server: never on a fleet")
    config.addinivalue_line("markers", "tenant: is one tenant of a server that it shares")
    config.addinivalue_line("markers", "own_server: shares none, though others in its file do")
    config.addinivalue_line("markers", "heavy: runs long or measures time: ./test long runs few such tests at once, as those in faults/")
    config.addinivalue_line("markers", "begins_early: takes a minute or more, so that others would wait for its end")
    config.addinivalue_line("markers", "waits: takes seconds in which little is computed, so that it is spread among the others")
    config.addinivalue_line("markers", "dashboard_all: runs with --dashboard and in ./test long only")
    config.addinivalue_line("markers", "cluster(when='always'): matters across nodes; with `when`, so much that ./test runs it on a cluster too")
    config.addinivalue_line("markers", "each_fleet: ./test runs it on both fleets")
    if config.getoption("passed") and not os.environ.get("PYTEST_XDIST_WORKER"):
        config.pluginmanager.register(passed_tests.Passed(config.getoption("passed")))


def topologies_of(definition, chosen):
    if definition.get_closest_marker("standalone"):
        assert definition.get_closest_marker("standalone").args, f"{definition.nodeid} does not say why it needs one node"
        return ["standalone"]
    text = definition.get_closest_marker("text")
    assert not text or text.args, f"{definition.nodeid} does not say why it needs no fleet"
    possible = TOPOLOGIES[:2] if text or definition.get_closest_marker("shared") else TOPOLOGIES
    marker = definition.get_closest_marker("cluster")
    most = 2 if marker and marker.kwargs.get("when") == "always" else 1
    wanted = possible if chosen or LONG else possible[:most]
    return [t for t in wanted if chosen in (None, t)] or ["standalone"]  # which is then left out


def fleets_of(definition, chosen):
    if chosen or LONG or definition.get_closest_marker("each_fleet"):
        return FLEETS
    return [FLEETS[zlib.crc32(definition.name.encode()) % len(FLEETS)]]


def pytest_generate_tests(metafunc):
    chosen = metafunc.config.getoption("topology")
    if "topology" in metafunc.fixturenames:
        metafunc.parametrize("topology", topologies_of(metafunc.definition, chosen), indirect=True)
    if "fleet" in metafunc.fixturenames:
        metafunc.parametrize("fleet", fleets_of(metafunc.definition, chosen), indirect=True)


def runs_on(item):
    """What needs no server at all runs with the first."""
    if "topology" in item.fixturenames:
        return item.callspec.params["topology"]
    if "fleet" in item.fixturenames:
        return item.callspec.params["fleet"]
    return "cluster" if "postgres_server" in item.fixturenames else "standalone"


BROKERS = {"amqp": "rabbitmq", "rabbitmq": "rabbitmq", "kafka": "kafka"}


def bound_to(nodeid):
    """What binds a test to one worker, by its name: the browser or the slow-starting broker that it needs, which then only that worker starts. In
    ./test long every worker needs all brokers."""
    if "dashboard/" in nodeid:
        return "dashboard"  # one browser, and one server that lives
    if LONG:
        return None
    return next((broker for word, broker in BROKERS.items() if word in nodeid), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A worker gets the next test when it has done one. Tests that are bound to one worker all go to it, first."""
    if config.getoption("topology") in FLEETS:
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneWorkerForSome(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return bound_to(nodeid) or nodeid

    return OneWorkerForSome(config, log)


def spread(items):
    """Tests that are bound to one worker come first, then those that begin early. Other long tests are spread among the short ones, and none
    is last, when the other workers have nothing left to do."""
    bound = [item for item in items if bound_to(item.nodeid)]
    early = [item for item in items if item.get_closest_marker("begins_early") and item not in bound]
    items = [item for item in items if item not in bound and item not in early]
    slow = [item for item in items if item.path.parent.name == "faults" or runs_on(item) != "standalone" or item.get_closest_marker("waits")]
    is_slow = set(slow)
    quick = [item for item in items if item not in is_slow]
    step = max(1, len(quick) * 9 // 10 // max(1, len(slow)))
    mixed = []
    for i, item in enumerate(slow):
        mixed += [*quick[i * step:(i + 1) * step], item]
    return bound + early + mixed + quick[len(slow) * step:]


def is_heavy(item):
    """Several nodes under faults have deadlines, and six such tests at once leave no core to meet these."""
    return item.path.parent.name == "faults" or bool(item.get_closest_marker("heavy"))


def is_wanted(item, option, passed):
    """All tests of the dashboard take minutes, so ./test runs the main ones."""
    if option("topology") not in (None, runs_on(item)) or item.nodeid in passed:
        return False
    if option("phase") and is_heavy(item) != (option("phase") == "heavy"):
        return False
    if option("dashboard"):
        return item.path.parent.name == "dashboard"
    return LONG or not item.get_closest_marker("dashboard_all")


def pytest_collection_modifyitems(config, items):
    passed = passed_tests.read(config.getoption("leave_out"))
    kept = [item for item in items if is_wanted(item, config.getoption, passed)]
    wanted = set(kept)
    left_out = [item for item in items if item not in wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    items[:] = spread(kept) if os.environ.get("PYTEST_XDIST_WORKER") else kept


@pytest.fixture
def topology(request):
    return request.param


@pytest.fixture(scope="session")
def postgres_server():
    """One server for all tests of this process, which may stop it as long as they start it again."""
    from postgres import Postgres, binaries

    if not binaries():
        pytest.skip("PostgreSQL: Debian's package postgresql is not installed")
    with Postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server):
    """That server, and it runs."""
    yield postgres_server
    postgres_server.start()


@pytest.fixture
def database(postgres):
    """A fresh one."""
    name = postgres.new_database()
    yield name
    postgres.start().drop_database(name)


@pytest.fixture(scope="session")
def prepared_store(build, tmp_path_factory):
    """A data directory with a database of the present schema, to be copied: migrations take a third of a server's start."""
    folder = tmp_path_factory.mktemp("prepared") / "data"
    subprocess.run([build / "belfry", "migrate", "up", "--data-dir", folder], check=True, stdout=subprocess.DEVNULL)
    for name in ("belfry.db-shm", "belfry.db-wal", "belfry.lock"):
        (folder / name).unlink(missing_ok=True)
    return folder


@pytest.fixture(scope="session")
def make_prepared_database(build, postgres_server):
    """make_prepared_database(): a fresh one that has the present schema. Copied, as the store above."""
    made = []

    def make():
        if not made:
            made.append(postgres_server.new_database())
            url = postgres_server.url(made[0])
            subprocess.run([build / "belfry", "migrate", "up", "--store", url], check=True, stdout=subprocess.DEVNULL)
        return postgres_server.new_database(like=made[0])

    return make


@pytest.fixture
def make_server(topology, request, prepared_store, tmp_path):
    """make_server(*arguments, env=None): a server on a data directory or database of its own, started; killed after the test."""
    from cluster import Cluster
    from server import Server  # which itself asks us where the build is

    from fleet import Fleet

    made, databases = [], []
    postgres = request.getfixturevalue("postgres") if topology != "standalone" else None
    new_database = request.getfixturevalue("make_prepared_database") if postgres else None
    carriers = request.getfixturevalue("make_carriers") if topology in FLEETS else None

    def make(*arguments, start=True, **more):
        folder = tmp_path / f"data{len(made)}"
        if topology == "standalone":
            if start:
                shutil.copytree(prepared_store, folder)
            server = Server(folder, *arguments, **more)
        else:
            databases.append(new_database() if start else postgres.new_database())
            url = postgres.url(databases[-1])
            server = Cluster(folder, url, *arguments, **more) if topology == "cluster" else Fleet(folder, url, carriers(topology).arguments, *arguments, **more)
        made.append(server)
        return server.start() if start else server

    yield make
    for server in made:
        server.close()
    for name in databases:
        postgres.start().drop_database(name)


@pytest.fixture(scope="session")
def redis_server():
    """One for all tests of this process, which keep apart by prefixes; who stops it starts it again."""
    from redis import Redis, program

    if not program():
        pytest.skip("Redis: Debian's package redis-server is not installed")
    with Redis() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server():
    from rabbitmq import RabbitMQ, installed

    if not installed():
        pytest.skip("RabbitMQ: Debian's package rabbitmq-server is not installed")
    with RabbitMQ() as server:
        yield server


@pytest.fixture(scope="session")
def kafka_server():
    """A broker where one can be had, else the cluster that librdkafka has built in."""
    from kafka import Kafka, MockKafka, classpath

    with Kafka() if classpath() else MockKafka(BUILD / "tests/support/kafka_mock") as server:
        yield server


@dataclasses.dataclass
class Carriers:
    """Of one fleet. wire: what its queue is behind, where a test asked for that."""

    queue: str
    events: str
    wire: object = None

    @property
    def arguments(self):
        return ("--queue", self.queue, "--events", self.events)


@pytest.fixture(scope="session")
def make_carriers(request):
    """make_carriers(topology, wires=None): a queue and events of their own."""
    numbers = itertools.count()

    def make(topology, wires=None):
        prefix = f"t{os.getpid()}n{next(numbers)}"
        rabbit = request.getfixturevalue("rabbitmq_server") if topology == "fleet-amqp" else None
        server = rabbit or request.getfixturevalue("redis_server")
        queue = server.url(prefix=prefix)
        events = (rabbit or request.getfixturevalue("kafka_server")).url(prefix=prefix)
        if not wires:
            return Carriers(queue, events)
        port = rabbit.ports["amqp"] if rabbit else server.port
        wire = wires.new(port)
        return Carriers(queue.replace(f":{port}/", f":{wire.port}/"), events, wire)

    return make


@pytest.fixture
def fleet(request):
    """On which: for tests that are about fleets alone."""
    return request.param


@pytest.fixture
def make_fleet(fleet, make_carriers, make_prepared_database, postgres, build, tmp_path):
    """make_fleet(*arguments, nodes=2, workers=3, worker_arguments=[(), …], worker_envs=[{}, …], wires=None, start=True); killed after the
    test. With wires, its queue is behind fleet.wire."""
    from fleet import Fleet

    made, databases = [], []

    def make(*arguments, start=True, wires=None, **more):
        databases.append(make_prepared_database())
        carriers = make_carriers(fleet, wires)
        one = Fleet(tmp_path / f"fleet{len(made)}", postgres.url(databases[-1]), carriers.arguments, *arguments, **more)
        one.wire, one.database = carriers.wire, databases[-1]
        made.append(one)
        return one.start() if start else one

    yield make
    for one in made:
        print(one.log())  # which pytest shows of a test that failed
        one.close()
    for name in databases:
        postgres.start().drop_database(name)


@pytest.fixture
def make_cluster(postgres, build, tmp_path):
    """make_cluster(urls, *arguments, nodes=3, env=None, start=True): nodes on a database that the test has made; killed after it."""
    from cluster import Cluster

    made = []

    def make(urls, *arguments, start=True, **more):
        cluster = Cluster(tmp_path / f"cluster{len(made)}", urls, *arguments, **more)
        made.append(cluster)
        return cluster.start() if start else cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def pooler(postgres):
    """A pgbouncer before the server, in transaction mode; pooler.port."""
    from postgres import Pooler

    if not Pooler.program():
        pytest.skip("pgbouncer: Debian's package pgbouncer is not installed")
    with Pooler(postgres) as made:
        yield made


@pytest.fixture
def wires():
    """Proxies to put before a server: wires.new(port)."""
    from tcp_proxy import Wires

    with Wires() as made:
        yield made


@pytest.fixture(scope="session")
def shared_servers(request, build, prepared_store, tmp_path_factory):
    from cluster import Cluster
    from fleet import Fleet
    from server import Server
    from sharing import SharedServers

    def make(topology):
        folder = tmp_path_factory.mktemp("shared") / "data"
        if topology == "standalone":
            shutil.copytree(prepared_store, folder)
            return Server(folder)
        url = request.getfixturevalue("postgres_server").url(request.getfixturevalue("make_prepared_database")())
        if topology == "cluster":
            return Cluster(folder, url)
        return Fleet(folder, url, request.getfixturevalue("make_carriers")(topology).arguments)

    servers = SharedServers(make)
    yield servers
    servers.stop()


@pytest.fixture
def server(request, topology, tmp_path):
    """One of its own, or one that it shares."""
    from sharing import kind_of

    kind = kind_of(request.node)
    if kind:
        yield from request.getfixturevalue("shared_servers").borrowed(kind, topology, tmp_path)
    else:
        yield request.getfixturevalue("make_server")()


@pytest.fixture
def client(server):
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def receiver():
    from server import Receiver

    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def clock(request, build, tmp_path):
    """A wall clock to set, for make_server(env=clock.env). A cluster goes by its store's clock, which nobody sets: there it passes."""
    from clock import SHIM, Clock, PassingClock

    if "topology" in request.fixturenames and request.getfixturevalue("topology") != "standalone":
        return PassingClock()
    if not SHIM.is_file():
        pytest.skip(f"jumped clock: this build has no {SHIM.name}")
    return Clock(tmp_path / "clock")


@pytest.fixture
def clocks(build, tmp_path):
    """One for each node of a cluster."""
    from clock import SHIM, Clock

    if not SHIM.is_file():
        pytest.skip(f"jumped clocks: this build has no {SHIM.name}")
    return [Clock(tmp_path / f"clock{i}") for i in range(3)]


# ----------------------------------------------------------------------------------------------------------------------
# the dashboard: dashboard/browser.py, of which each process has one


@pytest.fixture(scope="session")
def alive(build, prepared_store, tmp_path_factory):
    """A server with a living system (dashboard/living.py), and who serves the dashboard."""
    import browser

    with browser.system(tmp_path_factory.mktemp("alive") / "data", prepared_store, fill=True) as system:
        yield system


@pytest.fixture(scope="session")
def bare(build, prepared_store, tmp_path_factory):
    """The same on which nothing has happened."""
    import browser

    with browser.system(tmp_path_factory.mktemp("bare") / "data", prepared_store, fill=False) as system:
        yield system


@pytest.fixture(scope="session")
def chromium():
    import browser

    with browser.chromium() as program:
        yield program


@pytest.fixture
def undisturbed(tmp_path_factory):
    """One test at a time has it. Chromium takes all cores for tenths of a second: what measures how late tasks fire does not run beside it."""
    with open(tmp_path_factory.getbasetemp().parent / "undisturbed.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def tabs(chromium, undisturbed):
    """tabs(system, login=True, **context options): a browser.Tab, logged in; the browser must not complain until the end of the test."""
    import browser

    with browser.tabs(chromium) as make:
        yield make


@pytest.fixture
def counts(record_property):
    """counts(text): a line of figures that is shown at the end, whether the test passed or not."""
    return lambda text: record_property("counts", str(text))


def pytest_terminal_summary(terminalreporter):
    lines = [text for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", "") == "call"
             for name, text in report.user_properties if name == "counts"]
    if lines:
        terminalreporter.section("counts")
    for line in sorted(lines):
        terminalreporter.write_line(line)
