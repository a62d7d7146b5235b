"""A task that takes the process down whenever it runs, of a cluster one node after the other, of a fleet its workers, among thousands that do
not: it is found, and nobody else is blamed.

The process dies by a failpoint that only the poison task passes. Whoever runs beside it is lost again and again, and must complete all the same.
"""

import signal

from server import Reply, at, now_ms, until

INNOCENT = 10000
SLOW = 10  # of the first that run beside it
DEATHS_MAX = 8


def test_a_poison_task_is_dead_lettered_and_ten_thousand_others_are_not(make_server, receiver, counts):
    server = make_server(env={"BELFRY_FAILPOINT": "poison_call:kill"})
    client = server.client()
    receiver.answer("/slow", Reply(takes_s=0.2))
    due = at(now_ms() + 6000)  # all of them are there by then
    slow = [{"name": "slow", "run_at": due, **receiver.target("/slow")} for _ in range(SLOW)]
    many = [{"name": "innocent", "run_at": due, "target_type": "NOOP"} for _ in range(INNOCENT - SLOW)]
    poison = client.create(name="poison", task_type="poison", run_at=due, target_type="NOOP")["id"]  # the first of its lane
    made = [t["id"] for t in client.post("/v1/tasks/batch", slow + many).json["tasks"]]
    deaths = 0

    def is_over():
        nonlocal deaths
        for process in [p for p in server.processes if not p.runs()]:
            assert process.ended() == -signal.SIGKILL, process.log()
            deaths += 1
            assert deaths <= DEATHS_MAX, f"it was not found\n{server.log()[-3000:]}"
            process.start()
        return client.task(poison)["status"] == "FAILED"

    def look():
        try:
            return is_over()
        except OSError:  # it died while it was asked
            return False

    until(look, why=lambda: f"{deaths} deaths\n{server.log()[-3000:]}")
    until(lambda: not client.all("/v1/tasks?status=SCHEDULED,RUNNING"), why=lambda: server.log()[-3000:])
    found = client.task(poison)
    states = {t["id"]: t["status"] for t in client.all("/v1/tasks")}
    blamed = [i for i in made if states[i] != "COMPLETED"]
    counts(f"poison: {INNOCENT} innocent tasks, {deaths} deaths, {len(receiver.to('/slow'))} slow calls, {len(blamed)} blamed")
    assert not blamed, blamed
    assert deaths >= 4 and found["last_error"].startswith("poison: "), found
    server.stop()
