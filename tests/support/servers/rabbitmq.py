"""A RabbitMQ server of one's own: on free ports of this machine, with a name, a cookie and its data in a temporary directory, ended by the
pids that were started. Started by root, it runs as the user that Debian's package has made for it. No plugins.

    with RabbitMQ() as rabbit:
        url = rabbit.url(prefix="mine")

A start takes some seconds: one server for as many tests as possible, which keep apart by the prefix of their names. What a test does to a
server that another process has started (a suite in C) it does by the command line:

    rabbitmq.py FOLDER stop|kill|start|restart|alarm-on|alarm-off|close-connections|wipe|messages NAME
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ports import free_ports

TIMEOUT_S = 90
POLL_S = 0.02
PROGRAMS = pathlib.Path("/usr/lib/rabbitmq/bin")  # the ones in /usr/sbin insist on Debian's own directories
# A start loads almost all modules of these applications, one after the other, which is most of its work. Loaded together they take half the time.
PRELOAD = """Applications = [kernel, stdlib, sasl, ssl, inets, compiler, xmerl, mnesia, tools, syntax_tools, public_key, os_mon, crypto, rabbit,
    rabbit_common, rabbitmq_prelaunch, ra, ranch, osiris, cuttlefish, observer_cli, syslog, jsx, systemd, aten, recon, sysmon_handler,
    credentials_obfuscation, stdout_formatter, seshat, amqp10_common, gen_batch_server, enough].
code:ensure_modules_loaded([list_to_atom(filename:basename(File, ".beam")) || Application <- Applications, is_list(code:lib_dir(Application)),
    File <- filelib:wildcard(filename:join([code:lib_dir(Application), "ebin", "*.beam"]))]).
"""


def installed():
    return (PROGRAMS / "rabbitmq-server").exists()


def unprivileged(*command):
    """Not as root: Debian's user owns what the server writes."""
    who = ["setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--init-groups"] if os.geteuid() == 0 else []
    return [*who, *map(str, command)]


class RabbitMQ:
    """One server, which speaks TLS on another port, by a certificate for `localhost` that vouches for itself (tls.pem). folder: of one that
    another process has started. authority: of client certificates (certificates.py); on the TLS port, clients need one, and its common name is the user."""

    def __init__(self, folder=None, settings=None, authority=None):
        assert installed(), "RabbitMQ is missing: install Debian's package rabbitmq-server"
        if folder:
            self.folder = pathlib.Path(folder)
            self.ports = json.loads((self.folder / "ports").read_text())
            return
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="belfry-rabbitmq-"))
        names = ("amqp", "dist", "epmd", "amqps")
        self.ports = dict(zip(names, free_ports(len(names))))
        (self.folder / "ports").write_text(json.dumps(self.ports))
        lines = {"listeners.tcp.1": f"127.0.0.1:{self.ports['amqp']}", "loopback_users": "none", "vm_memory_high_watermark.absolute": "2GB",
                 "disk_free_limit.absolute": "1MB", "log.console": "true", "log.console.level": "info", **(settings or {})}
        tls = self.folder / "tls"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{tls}.key", "-out", f"{tls}.pem"],
                       stdin=subprocess.DEVNULL, capture_output=True, check=True)
        lines |= {"listeners.ssl.1": f"127.0.0.1:{self.ports['amqps']}", "ssl_options.cacertfile": f"{tls}.pem",
                  "ssl_options.certfile": f"{tls}.pem", "ssl_options.keyfile": f"{tls}.key"}
        if authority:
            shutil.copy(authority.ca_file, self.folder / "clients.pem")
            lines |= {"ssl_options.cacertfile": self.folder / "clients.pem", "ssl_options.verify": "verify_peer",
                      "ssl_options.fail_if_no_peer_cert": "true", "auth_mechanisms.1": "EXTERNAL", "auth_mechanisms.2": "PLAIN",
                      "ssl_cert_login_from": "common_name"}
        (self.folder / "rabbitmq.conf").write_text("".join(f"{k} = {v}\n" for k, v in lines.items()))
        (self.folder / "enabled_plugins").write_text("[rabbitmq_auth_mechanism_ssl].\n" if authority else "[].\n")
        (self.folder / ".erlang").write_text(PRELOAD)  # Erlang runs it first, from HOME
        # After a crash, what was on its way from one queue to another is sent again; by itself after 3 minutes.
        (self.folder / "advanced.config").write_text("[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 1000}]}].\n")
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.iterdir()):
                shutil.chown(path, "rabbitmq", "rabbitmq")

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    # ---- its life ----

    def _environment(self):
        at = self.folder
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": f"{at}", "LANG": "C.UTF-8", "ERL_EPMD_PORT": f"{self.ports['epmd']}",
                "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_NODENAME": f"belfry{self.ports['amqp']}@localhost",
                "RABBITMQ_DIST_PORT": f"{self.ports['dist']}", "RABBITMQ_BASE": f"{at}", "RABBITMQ_MNESIA_BASE": f"{at}/mnesia",
                "RABBITMQ_LOG_BASE": f"{at}/log", "RABBITMQ_LOGS": "-", "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                "RABBITMQ_CONFIG_FILE": f"{at}/rabbitmq", "RABBITMQ_ADVANCED_CONFIG_FILE": f"{at}/advanced.config",
                "RABBITMQ_ENABLED_PLUGINS_FILE": f"{at}/enabled_plugins", "RABBITMQ_PID_FILE": f"{at}/server.pid",
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}

    def _spawn(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(unprivileged(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                       env=self._environment(), start_new_session=True)
        (self.folder / f"{name}.started").write_text(str(process.pid))

    def _pid(self, name):
        try:
            return int((self.folder / f"{name}.started").read_text())
        except FileNotFoundError:
            return None

    @staticmethod
    def _runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def _end(self, name, how):
        """The whole session that was started under that name: a shell, and what it became or started."""
        pid = self._pid(name)
        if pid is None:
            return
        try:
            os.killpg(pid, how)
        except ProcessLookupError:
            pass
        end = time.monotonic() + TIMEOUT_S
        while self._group_runs(pid):
            if time.monotonic() > end:
                os.killpg(pid, signal.SIGKILL)
            time.sleep(POLL_S)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # another process started it
        (self.folder / f"{name}.started").unlink()

    def _group_runs(self, group):
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                return True
        return False

    def start(self):
        """Returns once it takes connections."""
        if self._pid("epmd") is None:
            self._spawn("epmd", "epmd", "-port", self.ports["epmd"], "-address", "127.0.0.1")
        if self._pid("server") is None:
            self._spawn("server", PROGRAMS / "rabbitmq-server")
        end = time.monotonic() + TIMEOUT_S
        while not self._listens(self.ports["amqp"]):
            assert self._runs(self._pid("server")) and time.monotonic() < end, f"RabbitMQ did not start:\n{self.log()}"
            time.sleep(POLL_S)
        return self

    def _end_server(self, how):
        """Its first thread is gone before the others, which hold its sockets and its name: whoever is started then finds both taken."""
        self._end("server", how)
        end = time.monotonic() + TIMEOUT_S
        while any(self._listens(self.ports[name]) for name in ("amqp", "dist")) and time.monotonic() < end:
            time.sleep(POLL_S)

    @staticmethod
    def _listens(port):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    def stop(self):
        """As an administrator would: all is written."""
        self._end_server(signal.SIGTERM)

    def kill(self):
        """As if it had crashed."""
        self._end_server(signal.SIGKILL)

    def restart(self):
        self.stop()
        return self.start()

    def close(self):
        """For the end, however it went."""
        self.kill()
        self._end("epmd", signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self):
        try:
            return (self.folder / "server.log").read_text(errors="replace")[-5000:]
        except FileNotFoundError:
            return ""

    # ---- what tests do to it ----

    def url(self, *ports, vhost="%2F", **parameters):
        """ports: to reach it by, of several servers or of proxies before it; default: its own."""
        where = ",".join(f"127.0.0.1:{port}" for port in ports or (self.ports["amqp"],))
        more = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"amqp://guest:guest@{where}/{vhost}" + (f"?{more}" if more else "")

    def tls_url(self, **parameters):
        more = "&".join(f"{k}={v}" for k, v in {"cacert": self.folder / "tls.pem", **parameters}.items())
        return f"amqps://guest:guest@localhost:{self.ports['amqps']}/%2F?{more}"

    def certificate_url(self, authority, client, **parameters):
        """client: the name of a certificate of the authority; no user, no password."""
        files = {"cacert": self.folder / "tls.pem", "cert": authority.folder / f"{client}.pem", "key": authority.folder / f"{client}.key"}
        more = "&".join(f"{k}={v}" for k, v in {**files, **parameters}.items())
        return f"amqps://localhost:{self.ports['amqps']}/%2F?auth_mechanism=external&{more}"

    def add_user(self, name):
        """Without a password, with all rights."""
        self.evaluate(f'ok = rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"not used">>, <<"test">>)')
        self.evaluate(f'ok = rabbit_auth_backend_internal:set_permissions(<<"{name}">>, <<"/">>, <<".*">>, <<".*">>, <<".*">>, <<"test">>)')

    def evaluate(self, erlang):
        """Runs an expression in the server and returns what it gives. rabbitmqctl does the same, but is a virtual machine that takes seconds of
        processor time to start."""
        cookie = (self.folder / ".erlang.cookie").read_text()
        done = subprocess.run(["erl_call", "-sname", f"belfry{self.ports['amqp']}@localhost", "-c", cookie, "-timeout", str(TIMEOUT_S), "-e"],
                              input=f"{erlang}.\n".encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self._environment(),
                              cwd=self.folder, timeout=TIMEOUT_S, check=False)
        said = done.stdout.decode("utf-8", "replace")
        assert done.returncode == 0 and said.startswith("{ok, "), f"{erlang}: {said}"
        return said[len("{ok, "):-1]

    def alarm(self, on):
        """Short of memory: who publishes is blocked."""
        self.evaluate(f"ok = vm_memory_monitor:set_vm_memory_high_watermark({'0.0' if on else '{absolute, 2000000000}'})")

    def close_connections(self):
        self.evaluate('rabbit_networking:close_connections(rabbit_networking:connections(), "a test")')

    def messages(self, name):
        """How many are ready in a queue of exactly that name; None: there is no such queue."""
        found = self.evaluate(f'case rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{name}">>)) of {{ok, Queue}} -> '
                              "[{messages_ready, Count}] = rabbit_amqqueue:info(Queue, [messages_ready]), Count; _ -> none end")
        return None if found == "none" else int(found)

    def wipe(self):
        """All that it had is gone, and it runs again."""
        self.stop()
        shutil.rmtree(self.folder / "mnesia")
        return self.start()


def main():
    rabbit = RabbitMQ(folder=sys.argv[1])
    verbs = {"stop": rabbit.stop, "kill": rabbit.kill, "start": rabbit.start, "restart": rabbit.restart, "wipe": rabbit.wipe,
             "alarm-on": lambda: rabbit.alarm(True), "alarm-off": lambda: rabbit.alarm(False),
             "close-connections": rabbit.close_connections, "messages": lambda: print(rabbit.messages(sys.argv[3]))}
    verbs[sys.argv[2]]()


if __name__ == "__main__":
    main()
