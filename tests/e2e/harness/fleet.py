"""Control nodes on one PostgreSQL database, and workers that have a queue and events and nothing else. To a test it looks like one server,
as a cluster does; what runs, runs on the workers."""

import re

from cluster import Cluster
from server import Server, spare_sanitizers, until

NODES, WORKERS = 2, 3
SHARED = {"--concurrency": 1, "--drain-deadline": 1, "--ca-file": 1}  # settings of a server that a worker has too


class Worker(Server):
    """`belfry worker`; its port is that of its vitals."""

    listens = re.compile(r"/metrics on port (\d+)")

    def command(self):
        return ["worker", "--listen", "127.0.0.1:0", "--allow-loopback"]


def for_workers(arguments):
    words = iter(arguments)
    return [word for name in words if name in SHARED for word in (name, next(words))]


class Fleet(Cluster):
    """carriers: its --queue and --events; worker_arguments, worker_envs: more for each worker, in their order. An env that is one for all is the
    workers' too."""

    def __init__(self, folder, urls, carriers, *arguments, env=None, nodes=NODES, workers=WORKERS, worker_arguments=None, worker_envs=None,
                 **more_of_cluster):
        super().__init__(folder, urls, *carriers, *arguments, env=env, nodes=nodes, **more_of_cluster)
        more, envs = worker_arguments or [], worker_envs or []
        self.carriers = carriers
        self.base = for_workers(arguments)
        self.base_env = env if isinstance(env, dict) else {}
        self.workers = spare_sanitizers([self.make_worker(*(more[i] if i < len(more) else ()), env=envs[i] if i < len(envs) else None)
                                         for i in range(workers)])
        self.processes = [*self.nodes, *self.workers]

    def make_worker(self, *arguments, env=None):
        return Worker(self.folder, *self.carriers, *self.base, *arguments, env={**self.base_env, **(env or {})})

    def add_worker(self, *arguments, env=None):
        """One more, which is waited for."""
        worker = self.make_worker(*arguments, env=env)
        self.workers.append(worker)
        self.processes.append(worker)
        worker.start()
        self.settled_workers()
        return worker

    def start(self, env=None):
        for worker in self.workers:
            if not worker.runs():
                worker.launch(env)
        super().start(env)
        for worker in self.workers:
            worker.listening()
        self.settled_workers()
        return self

    def settled_workers(self):
        """Until the control nodes have heard of every worker that runs."""
        pids = {f":{w.process.pid}" for w in self.workers if w.runs()}
        client = self.client()

        def heard():
            answer = client.get("/v1/workers?limit=1000")
            if answer.status == 401:  # the test has revoked our key: nobody can be asked
                return pids
            found = answer.json["workers"] if answer.status == 200 else []  # 503: its connections are not there yet
            return {":" + w["name"].rpartition(":")[2] for w in found if w["state"] == "alive"}

        until(lambda: pids <= heard(), why=lambda: f"of {pids} only {heard()} were heard of\n{self.log()[-3000:]}")
        client.close()

    def known_workers(self, all=False):
        client = self.client()
        try:
            return client.all("/v1/workers?all=true" if all else "/v1/workers", "workers")
        finally:
            client.close()

    def stop(self):
        super().stop()
        for worker in self.workers:
            if worker.runs():
                worker.stop()

    def kill(self):
        super().kill()
        for worker in self.workers:
            if worker.runs():
                worker.kill()

    def close(self):
        super().close()
        for worker in self.workers:
            worker.close()

    def name_of(self, process):
        return f"worker {self.workers.index(process)}" if process in self.workers else super().name_of(process)

    @property
    def lines(self):
        return super().lines + [f"worker {i}: {line}" for i, w in enumerate(self.workers) for line in list(w.lines)]
