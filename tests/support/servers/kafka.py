"""A Kafka broker of one's own: one process (KRaft), on free ports of this machine, with its data in a temporary directory, ended by the pid that
was started.

    with Kafka() as kafka:
        url = kafka.url(prefix="one")

Debian has no package of it. Where there are java and mvn, its jars are fetched once, by Maven, into the cache directory; nobody is made to
install a JDK for that: classpath() is None then, and MockKafka, the cluster that librdkafka has built in, stands in.
"""

import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

from ports import free_ports

VERSION = "3.9.0"
TIMEOUT_S = 90
FETCH_TIMEOUT_S = 300
TRY_AGAIN_S = 3600
POLL_S = 0.02
JAVA = ["-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>belfry</groupId><artifactId>kafka</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency></dependencies></project>
"""


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "belfry-tests" / f"kafka-{VERSION}"


def fetch(folder):
    """Into `folder`, or not at all: it appears when all is there."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        (pathlib.Path(work) / "pom.xml").write_text(POM)
        done = subprocess.run(["mvn", "-q", "-B", "-f", f"{work}/pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime",
                               f"-DoutputDirectory={work}/lib"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=FETCH_TIMEOUT_S, check=False)
        if done.returncode == 0:
            os.rename(f"{work}/lib", folder)


def classpath():
    """Of the broker; None where there is no Java, no Maven or no way to its repository: then nobody tries again for an hour."""
    folder = cache()
    if not shutil.which("java"):
        return None
    if not folder.exists() and shutil.which("mvn"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        failed = folder.with_suffix(".failed")
        with open(folder.with_suffix(".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists() and not (failed.exists() and time.time() - failed.stat().st_mtime < TRY_AGAIN_S):
                try:
                    fetch(folder)
                except (OSError, subprocess.SubprocessError):
                    pass
                if not folder.exists():
                    failed.touch()
    return f"{folder}/*" if folder.exists() else None


def url(brokers, **parameters):
    more = "&".join(f"{k}={v}" for k, v in parameters.items())
    return f"kafka://{brokers}/" + (f"?{more}" if more else "")


class Kafka:
    """One broker. What was committed is there again after a restart. Who asks for it by `wire_port` is told to go on by that port: there a
    test may put a wire to `wired_port`, which it can cut. tls: an Authority (certificates.py); clients on `tls_port` need a certificate of it."""

    is_mock = False

    def __init__(self, tls=None):
        self.classpath = classpath()
        assert self.classpath, "Kafka needs java, and mvn to fetch it"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belfry-kafka-"))
        self.port, self.controller, self.wired_port, self.wire_port, self.tls_port = free_ports(5)
        self.tls = tls
        self.process = None
        (self.folder / "server.properties").write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{self.controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},WIRED://127.0.0.1:{self.wired_port},CONTROLLER://127.0.0.1:{self.controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port},WIRED://127.0.0.1:{self.wire_port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,WIRED:PLAINTEXT
log.dirs={self.folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
auto.create.topics.enable=false
log.cleaner.enable=false
num.network.threads=2
num.io.threads=2
""" + (self._tls_settings() if tls else ""))
        self._java("kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex[:22], "-c", self.folder / "server.properties")

    def _tls_settings(self):
        """Settings that come later replace those above."""
        plain = f"PLAINTEXT://127.0.0.1:{self.port}"
        secure = f"SECURE://127.0.0.1:{self.tls_port}"
        return f"""listeners={plain},{secure},CONTROLLER://127.0.0.1:{self.controller}
advertised.listeners={plain},{secure}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SSL
ssl.keystore.type=PEM
ssl.keystore.location={self.tls.certificate("kafka")}
ssl.truststore.type=PEM
ssl.truststore.location={self.tls.ca_file}
ssl.client.auth=required
"""

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def _command(self, *words):
        return ["setpriv", "--pdeathsig=KILL", "java", *JAVA, "-cp", self.classpath, *map(str, words)]

    def _java(self, *words):
        done = subprocess.run(self._command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=TIMEOUT_S, cwd=self.folder, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout.decode('utf-8', 'replace')}"

    def start(self):
        """Returns once it takes connections."""
        if self.process:
            return self
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self._command("kafka.Kafka", self.folder / "server.properties"), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end, f"Kafka did not start:\n{self.log()}"
                time.sleep(POLL_S)

    def stop(self, how=signal.SIGKILL):
        if not self.process:
            return
        self.process.send_signal(how)
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(TIMEOUT_S)
        self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        """For the end, however it went."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-5000:]

    def url(self, port=None, **parameters):
        return url(f"127.0.0.1:{port or self.port}", **parameters)

    def tls_url(self, client, **parameters):
        """client: the name of a certificate of the authority."""
        files = {"ssl.ca.location": self.tls.ca_file, "ssl.certificate.location": self.tls.folder / f"{client}.pem",
                 "ssl.key.location": self.tls.folder / f"{client}.key"}
        return url(f"127.0.0.1:{self.tls_port}", **{"security.protocol": "ssl"}, **files, **parameters)


class MockKafka:
    """librdkafka's own cluster of one broker, in a process of ours (kafka_mock.c): it knows groups and offsets, and forgets all when it ends."""

    is_mock = True

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.brokers = self.process.stdout.readline().strip()
        assert self.brokers, "the mock cluster did not start"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(TIMEOUT_S)
        self.process.stdout.close()

    def start(self):
        return self

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self, how=None):
        raise AssertionError(f"a mock cluster cannot be stopped ({how}) and keep what it has")

    def url(self, **parameters):
        # It makes topics for who asks about them, and knows no other way.
        return url(self.brokers, **parameters, **{"allow.auto.create.topics": "true"})
