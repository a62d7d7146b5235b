"""Workers of their own: what they run, what becomes of their work when they or a control node die, and what each of them gets."""

import json
import re
import signal
import time

import pytest

from server import Reply, at, now_ms, to_ms, until

RESUME_MS = 5000  # promised of a dead worker's work
HOUR_MS = 3_600_000


def by_worker(client, task):
    """Who ran it: the name of a process."""
    return [e["worker"] for e in client.all(f"/v1/tasks/{task}/executions", "executions")]


def process_of(worker):
    return f":{worker.process.pid}"


def running_on(worker):
    """How many tasks a worker says that it runs."""
    text = worker.client().get("/metrics", auth=False).body.decode()
    return int(re.search(r"^belfry_tasks_running (\d+)$", text, re.MULTILINE)[1])


def test_a_webhook_runs_on_a_worker(make_fleet, receiver):
    fleet = make_fleet()
    client = fleet.client()
    task = client.create(run_at=at(now_ms() + 200), **receiver.target("/hello"))
    (call,) = receiver.wait("/hello")
    assert call.received_ms >= call.scheduled_ms
    client.wait_for(task["id"], "COMPLETED")
    (worker,) = by_worker(client, task["id"])
    assert any(worker.endswith(process_of(w)) for w in fleet.workers), worker


def test_a_fleet_shows_its_workers_and_its_queue(make_fleet, belfry):
    fleet = make_fleet(workers=2, worker_arguments=[("--labels", "gpu,eu", "--queues", "mail", "--concurrency", "7"), ()])
    client = fleet.client()
    special = next(w for w in fleet.known_workers() if w["slots"] == 7)
    assert special["state"] == "alive" and special["about"]["labels"] == ["gpu", "eu"] and special["about"]["queues"] == ["mail"]
    assert client.get(f"/v1/workers/{special['id']}").json["name"] == special["name"]
    assert client.get("/v1/workers/01890000-0000-7000-8000-000000000000").status == 404
    shown = belfry("workers", "--server", fleet.nodes[0].url, "--data-dir", fleet.data_dir)
    assert shown.code == 0 and shown.lines[0].split()[:4] == ["NAME", "STATE", "RUNNING", "SLOTS"] and "gpu,eu" in shown.out, shown
    status = until(lambda: (s := fleet.status()) and s.get("queue", {}).get("waiting") is not None and s, why=lambda: f"{fleet.status()}")
    assert status["queue"]["down_since"] is None and status["events"]["down_since"] is None
    ready = fleet.workers[0].client().get("/ready", auth=False)
    metrics = fleet.workers[0].client().get("/metrics", auth=False).body
    assert ready.status == 200 and b"belfry_worker_slots 7" in metrics
    assert b"belfry_execution_duration_seconds_count 0" in metrics and b"belfry_tasks_executed_total" not in metrics, "control nodes count outcomes"


def test_a_killed_workers_tasks_run_elsewhere_within_five_seconds(make_fleet, receiver):
    fleet = make_fleet(workers=3)
    client = fleet.client()
    receiver.answer("/kill", Reply(takes_s=2))
    made = [client.create(run_at=at(now_ms()), **receiver.target("/kill"))["id"] for _ in range(30)]
    receiver.wait("/kill", 30)
    busiest = max(fleet.workers, key=running_on)
    had = running_on(busiest)
    killed_ms = now_ms()
    busiest.kill()
    until(lambda: all(client.task(i)["status"] == "COMPLETED" for i in made), why=lambda: fleet.log()[-3000:])
    again = [c for c in receiver.to("/kill") if c.received_ms > killed_ms]
    assert had and again, "the worker had nothing"
    late_ms = max(c.received_ms - killed_ms for c in again)
    assert late_ms <= RESUME_MS, f"the last ran {late_ms:.0f} ms later"
    assert len(again) <= had and len({c.id for c in again}) == len(again), "more ran again than the dead worker had"
    for task in {c.id for c in again}:
        runs = client.get(f"/v1/tasks/{task}/executions").json["executions"]
        [lost], [done] = ([x for x in runs if x["status"] == s] for s in ("LOST", "COMPLETED"))
        assert to_ms(lost["completed_at"]) >= killed_ms - 100, "a lost run ends when it is found"
        assert done["delay_cause"] == "DOWN" and abs(done["delay_ms"] - to_ms(done["started_at"]) + to_ms(done["scheduled_for"])) <= 1, done
        assert to_ms(client.task(task)["completed_at"]) >= to_ms(done["completed_at"]) >= to_ms(done["started_at"])
    silent = until(lambda: [w for w in fleet.known_workers() if w["state"] == "silent"], why="it is not silent")
    assert silent[0]["name"].endswith(process_of(busiest))


@pytest.mark.each_fleet
def test_a_worker_whose_clock_is_an_hour_off_does_as_the_others(make_fleet, fleet, receiver, clocks):
    """RabbitMQ has no clock to ask: there a worker's own says what is too late, and when it was."""
    has_clock = fleet != "fleet-amqp"
    clocks[0].jump(HOUR_MS)
    clocks[1].jump(-HOUR_MS)
    one = make_fleet(workers=2, worker_envs=[clocks[0].env, clocks[1].env])
    client = one.client()
    receiver.answer("/off", Reply(takes_s=0.2))
    wish = {"expires_after_seconds": 60} if has_clock else {}
    made = [client.create(run_at=at(now_ms() + 100 * i), **wish, **receiver.target("/off"))["id"] for i in range(20)]
    for task in made:
        client.wait_for(task, "COMPLETED")
    for task in made:
        (run,) = client.all(f"/v1/tasks/{task}/executions", "executions")
        assert abs(to_ms(run["started_at"]) - now_ms()) < 60_000 or not has_clock, run
    calls = receiver.to("/off")
    assert len(calls) == 20 and all(c.received_ms >= c.scheduled_ms for c in calls)
    assert {w["state"] for w in one.known_workers()} == {"alive"}


@pytest.mark.each_fleet
def test_what_runs_for_longer_than_rabbitmq_lets_it_is_refused_when_it_is_asked_for(make_fleet, fleet, receiver):
    if fleet != "fleet-amqp":
        pytest.skip("only RabbitMQ takes tasks away by itself")
    client = make_fleet(workers=1).client()
    refused = lambda: client.post("/v1/tasks", {"run_at": at(now_ms() + 60_000), "timeout_ms": 3_600_000, **receiver.target("/x")})
    answer = until(lambda: (a := refused()).status == 400 and a, why="nobody has looked at the queue")
    assert answer.json["errors"][0]["field"] == "timeout_ms" and "consumer_timeout" in answer.json["errors"][0]["message"], answer


def test_a_worker_that_is_told_to_go_finishes_what_it_runs_and_is_remembered(make_fleet, receiver, belfry):
    fleet = make_fleet(workers=1)
    client = fleet.client()
    receiver.answer("/drain", Reply(takes_s=2))
    made = [client.create(run_at=at(now_ms()), **receiver.target("/drain"))["id"] for _ in range(5)]
    receiver.wait("/drain", 5)
    fleet.workers[0].signal(signal.SIGTERM)
    late = client.create(run_at=at(now_ms()), **receiver.target("/late"))
    assert fleet.workers[0].ended() == 0
    for task in made:
        client.wait_for(task, "COMPLETED")
    assert len(receiver.to("/drain")) == 5 and not receiver.to("/late")
    until(lambda: [w["state"] for w in fleet.known_workers(all=True)] == ["left"], why=lambda: f"{fleet.known_workers(all=True)}")
    shown = lambda *more: belfry("workers", "--server", fleet.nodes[0].url, "--data-dir", fleet.data_dir, *more)
    assert shown().code == 0 and process_of(fleet.workers[0]) not in shown().out
    fleet.add_worker()
    client.wait_for(late["id"], "COMPLETED")
    states = {w["name"].rpartition(":")[2]: w["state"] for w in map(json.loads, shown("--all", "--json").lines)}
    assert states == {process_of(w)[1:]: state for w, state in zip(fleet.workers, ("left", "alive"))}
    assert [line.split()[1] for line in shown("--all").lines[1:]] in (["left", "alive"], ["alive", "left"])


def test_tasks_go_to_workers_that_have_what_they_need(make_fleet, receiver):
    fleet = make_fleet(workers=3, worker_arguments=[("--labels", "gpu"), ("--queues", "mail", "--concurrency", "20"), ("--memory-mb", "100")])
    gpu, mail, small = fleet.workers
    client = fleet.client()
    receiver.answer("/gpu", Reply(takes_s=0.05))
    needs_gpu = [client.create(run_at=at(now_ms()), requires=["gpu"], **receiver.target("/gpu"))["id"] for _ in range(10)]
    large = [client.create(run_at=at(now_ms()), resources={"memory_mb": 101}, **receiver.target("/large"))["id"] for _ in range(10)]
    plain = [client.create(run_at=at(now_ms()), **receiver.target("/plain"))["id"] for _ in range(10)]
    for task in needs_gpu + large + plain:
        client.wait_for(task, "COMPLETED")
    ran = lambda tasks: {name.rpartition(":")[2] for t in tasks for name in by_worker(client, t)}
    pid = lambda w: str(w.process.pid)
    assert ran(needs_gpu) == {pid(gpu)}
    assert pid(small) not in ran(large) and pid(mail) not in ran(large) | ran(plain)


def test_what_nobody_can_run_waits_and_is_run_by_who_comes(make_fleet, receiver):
    fleet = make_fleet(workers=1)
    client = fleet.client()
    task = client.create(run_at=at(now_ms()), requires=["tape"], **receiver.target("/tape"))
    other = client.create(run_at=at(now_ms()), **receiver.target("/other"))
    client.wait_for(other["id"], "COMPLETED")
    assert not receiver.to("/tape")
    fleet.add_worker("--labels", "tape")
    client.wait_for(task["id"], "COMPLETED")
    [run] = client.get(f"/v1/tasks/{task['id']}/executions").json["executions"]
    assert run["delay_cause"] == ("ROOM" if run["delay_ms"] >= 100 else None), run


@pytest.mark.standalone("a fleet has workers")
@pytest.mark.parametrize("wish", [{"requires": ["gpu"]}, {"resources": {"cpu": 1}}])
@pytest.mark.shared
def test_a_task_that_asks_for_a_worker_is_refused_where_there_is_none(client, wish):
    answer = client.post("/v1/tasks", {"run_at": at(now_ms() + 60_000), "target_type": "NOOP", **wish})
    assert answer.status in (400, 422) and "--queue" in answer.json["errors"][0]["message"], answer


@pytest.mark.parametrize("how", ["self", "wait"])
def test_while_the_queue_is_away_the_nodes_run_what_is_due_or_wait(make_fleet, receiver, how, tmp_path, wires):
    conf = tmp_path / "belfry.conf"
    conf.write_text(f"[queue]\nfallback = {how}\n")
    fleet = make_fleet("--config", str(conf), workers=1, wires=wires)
    client = fleet.client()
    fleet.wire.refuse()
    task = client.create(run_at=at(now_ms() + 300), **receiver.target("/away"))
    if how == "self":
        client.wait_for(task["id"], "COMPLETED")
        (name,) = by_worker(client, task["id"])
        assert any(name.endswith(process_of(node)) for node in fleet.nodes), name
    else:
        until(lambda: fleet.status()["queue"]["down_since"], why="nobody noticed")
        time.sleep(2)  # nothing is to happen
        assert not receiver.to("/away")
    fleet.wire.heal()
    later = client.create(run_at=at(now_ms() + 300), **receiver.target("/later"))
    for waiting in (task, later):
        client.wait_for(waiting["id"], "COMPLETED")
    assert len(receiver.to("/away")) == 1


@pytest.mark.parametrize("how", ["refuse", "drop"])
def test_an_idle_worker_stops_although_its_queue_is_gone(make_fleet, wires, how):
    fleet = make_fleet(workers=1, wires=wires)
    getattr(fleet.wire, how)()
    begun = time.monotonic()
    fleet.workers[0].stop()
    assert time.monotonic() - begun < 3, fleet.workers[0].log()  # 1.5 s, and what a busy machine adds
    fleet.wire.heal()


def test_workers_and_nodes_wait_for_a_queue_that_is_not_there_yet(make_fleet, receiver, wires):
    fleet = make_fleet(start=False, workers=1, wires=wires)
    fleet.wire.refuse()
    fleet.workers[0].start()
    fleet.nodes[0].start()
    until(lambda: "backend_down" in fleet.workers[0].log(), why=lambda: fleet.workers[0].log())
    time.sleep(2)  # a flood would be there by now
    assert fleet.workers[0].log().count("\n") < 6, fleet.workers[0].log()
    fleet.wire.heal()
    fleet.start()
    client = fleet.client()
    client.wait_for(client.create(run_at=at(now_ms()), **receiver.target("/hello"))["id"], "COMPLETED")


@pytest.mark.each_fleet
def test_passwords_are_seen_nowhere(make_fleet, fleet):
    if fleet != "fleet-amqp":
        pytest.skip("only RabbitMQ has a password here")
    one = make_fleet(workers=1)
    for process in [*one.nodes, *one.workers]:
        words = open(f"/proc/{process.process.pid}/cmdline", "rb").read().decode()
        assert "guest:*****@" in words and "guest:guest" not in words + process.log()
