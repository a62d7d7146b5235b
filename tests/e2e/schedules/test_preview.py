"""What is to come: previews, upcoming fires, the forecast, and why a task has not run yet."""

import threading

import pytest

from server import Reply, at, now_ms, to_ms, until

pytestmark = pytest.mark.tenant


def fires(answer):
    assert answer.status == 200, answer
    return answer.json["upcoming"]


# ----------------------------------------------------------------------------------------------------------------------
# previews and upcoming fires


@pytest.mark.shared
def test_a_preview_stores_nothing_and_says_why_a_fire_is_shifted(client):
    body = {"cron_expression": "30 2 * * *", "time_zone": "Europe/Berlin", "start_time": "2027-03-27T00:00:00Z", "target_type": "NOOP"}
    found = fires(client.post("/v1/preview?count=3", body))
    assert [f["at"] for f in found] == ["2027-03-27T01:30:00.000Z", "2027-03-28T01:00:00.000Z", "2027-03-29T00:30:00.000Z"]
    assert found[0]["note"] is None and "does not exist" in found[1]["note"]
    assert client.get("/v1/tasks").json["tasks"] == []


@pytest.mark.shared
def test_a_preview_of_a_one_time_task_is_its_time(client):
    [fire] = fires(client.post("/v1/preview", {"run_at": "2030-01-01T00:00:00Z", "target_type": "NOOP"}))
    assert fire["at"] == "2030-01-01T00:00:00.000Z"


@pytest.mark.shared
def test_a_preview_needs_no_target(client):
    found = fires(client.post("/v1/preview?count=3", {"interval_seconds": 0.5, "start_time": "2030-01-01T00:00:00Z"}))
    assert [f["at"][-5:] for f in found] == [".000Z", ".500Z", ".000Z"]


@pytest.mark.parametrize("path, body, field", [
    ("/v1/preview", {"cron_expression": "61 * * * *", "target_type": "NOOP"}, "cron_expression"),
    ("/v1/preview?count=0", {"target_type": "NOOP"}, "count"),
    ("/v1/preview?count=1001", {"target_type": "NOOP"}, "count"),
    ("/v1/preview?from=yesterday", {"target_type": "NOOP"}, "from"),
])
@pytest.mark.shared
def test_a_preview_of_nonsense_names_the_field(client, path, body, field):
    answer = client.post(path, body)
    assert answer.status == 400 and field in answer.json["errors"][0]["field"], answer


@pytest.mark.text("no task runs")
def test_the_upcoming_fires_of_a_task_end_with_its_runs(client):
    task = client.create(cron_expression="0 0 1 1 *", max_runs=3, target_type="NOOP")
    found = fires(client.get(f"/v1/tasks/{task['id']}/upcoming?count=50"))
    assert len(found) == 3 and found[0]["at"] == task["next_execution"]
    later = fires(client.get(f"/v1/tasks/{task['id']}/upcoming?from={found[1]['at']}"))
    assert later[0]["at"] == found[1]["at"]
    assert fires(client.get(f"/v1/tasks/{task['id']}/upcoming?from={found[0]['at']}&count=1")) == found[:1]


@pytest.mark.text("no task runs")
def test_what_fires_between_two_times_is_in_order_and_complete(client):
    start = "2030-06-01T00:00:00.000Z"
    hourly = client.create(name="hourly", cron_expression="0 * * * *", target_type="NOOP")
    daily = client.create(name="daily", cron_expression="30 12 * * *", target_type="NOOP")
    once = client.create(name="once", run_at="2030-06-01T12:15:00Z", target_type="NOOP")
    client.create(name="later", run_at="2030-06-02T00:00:00Z", target_type="NOOP")
    paused = client.create(name="paused", cron_expression="* * * * *", target_type="NOOP")
    client.act(paused["id"], "pause")
    answer = client.get(f"/v1/upcoming?from={start}&to=2030-06-02T00:00:00Z&limit=1000")
    found = fires(answer)
    assert answer.json["complete"] is True and len(found) == 26
    assert [f["at"] for f in found] == sorted(f["at"] for f in found)
    assert {f["task_id"] for f in found} == {hourly["id"], daily["id"], once["id"]}
    cut = client.get(f"/v1/upcoming?from={start}&to=2030-06-02T00:00:00Z&limit=5")
    assert fires(cut) == found[:5] and cut.json["complete"] is False


@pytest.mark.text("no task runs")
def test_upcoming_fires_know_of_pauses_and_dependencies(client):
    end = at(now_ms() // 1000 * 1000 + 3 * 3600_000)
    for mode, runs in (("RUN_ONE_NOW", "the latest one runs now"), ("SKIP_MISSED", None)):
        hourly = client.create(interval_seconds=3600, catch_up_mode=mode, queue="open", target_type="NOOP")["id"]
        pause(client, hourly, until=end)
        found = fires(client.get(f"/v1/tasks/{hourly}/upcoming?count=2"))
        assert found[0]["at"] == end and all(f["at"] >= end for f in found) and len(found) == 2 + (runs is None), found
        assert found[0].get("skipped", False) is (runs is None) and (runs or "none of them runs") in found[0]["note"], found
    once = client.create(delay="1h", queue="open", target_type="NOOP")["id"]
    pause(client, once, until=end)
    assert fires(client.get(f"/v1/tasks/{once}/upcoming")) == [{"at": end, "note": "its pause ends"}]
    pause(client, once, until=None)
    assert [f["note"] for f in fires(client.get(f"/v1/tasks/{once}/upcoming"))] == ["not while it is paused"]
    child = client.create(depends_on=[once], delay="2h", target_type="NOOP")["id"]
    assert [f["note"] for f in fires(client.get(f"/v1/tasks/{child}/upcoming"))] == ["not before the tasks that it waits for have ended"]
    due = client.create(depends_on=[once], target_type="NOOP")
    assert fires(client.get(f"/v1/tasks/{due['id']}/upcoming")) == [{"at": due["run_at"], "note": "not before the tasks that it waits for have ended"}]


CATCH_UP = {
    "one": ({}, ["the latest one runs now, that of {3} (catch_up_mode)"]),
    "all": ({"catch_up_mode": "RUN_ALL_MISSED"}, ["all of them run now (catch_up_mode)"]),
    "none": ({"catch_up_mode": "SKIP_MISSED"}, ["none of them runs (catch_up_mode)"]),
    "one, too old": ({"catch_up_window_seconds": 60}, ["none of them runs (catch_up_window_seconds)"]),
    "all, too old": ({"catch_up_mode": "RUN_ALL_MISSED", "catch_up_window_seconds": 60}, ["none of them runs (catch_up_window_seconds)"]),
    "all, some too old": ({"catch_up_mode": "RUN_ALL_MISSED", "catch_up_window_seconds": 4000}, ["2 run now, from that of {2} on (catch_up_mode)"]),
    "all, one too many": ({"catch_up_mode": "RUN_ALL_MISSED", "max_runs": 2}, ["2 run now, from that of {1} on (catch_up_mode)"]),
    "expires": ({"expires_after_seconds": 60}, ["none of them runs (expires_after_seconds)"]),
}


@pytest.mark.text("no task runs")
@pytest.mark.parametrize("body, said", CATCH_UP.values(), ids=CATCH_UP)
def test_upcoming_says_what_the_end_of_a_pause_runs(client, body, said):
    """The pause ends five minutes after the third time that it takes."""
    start = now_ms() // 1000 * 1000 + 600_000
    end = at(start + 2 * 3600_000 + 300_000)
    task = client.create(interval_seconds=3600, start_time=at(start), target_type="NOOP", **body)["id"]
    told = pause(client, task, until=end)
    wanted = said[0].format(*[""] + [at(start + n * 3600_000) for n in range(3)])
    found = fires(client.get(f"/v1/tasks/{task}/upcoming?count=3"))
    runs = "none of them" not in wanted
    assert (found[0]["at"], found[0].get("skipped", False)) == (end, not runs), found
    assert found[0]["note"] == "its pause ends; of the times that it has missed, " + wanted, found
    next_ = at(start + 3 * 3600_000)
    assert [f["at"] for f in found[1:2]] == ([] if "max_runs" in body else [next_]), found
    assert told["explanation"].split("; of the times that it has missed, ")[1].split(". It")[0] == wanted.replace("now", "then"), told
    assert (told["status"], told["outcome"], told["estimate"]) == ("PAUSED", "RUN", end if runs else next_), told
    assert names(told) == ["paused"] + ["due_time"] * (not runs), told


@pytest.mark.text("no task runs")
@pytest.mark.parametrize("mode", ["RUN_ONE_NOW", "RUN_ALL_MISSED", "SKIP_MISSED"])
def test_a_time_shortly_before_the_end_of_a_pause_is_not_missed(client, mode):
    start = now_ms() // 1000 * 1000 + 600_000
    task = client.create(interval_seconds=3600, start_time=at(start), catch_up_mode=mode, target_type="NOOP")["id"]
    for late, runs in ((2000, True), (3000, mode != "SKIP_MISSED")):
        end = at(start + late)
        pause(client, task, until=end)
        found = fires(client.get(f"/v1/tasks/{task}/upcoming?count=1"))
        assert found[0]["at"] == end and found[0].get("skipped", False) is not runs, found
        assert ("too recent to count as missed" in found[0]["note"]) is (late < 2500), found
        assert (f"its time {at(start)} runs now" in found[0]["note"]) is (late < 2500), found
        assert gate(client, task)["estimate"] == (end if runs else at(start + 3600_000))


@pytest.mark.text("no task runs")
def test_a_pause_beyond_the_end_of_a_schedule_lets_nothing_run(client):
    start = now_ms() // 1000 * 1000 + 600_000
    task = client.create(interval_seconds=3600, start_time=at(start), end_date=at(start + 60_000), catch_up_mode="SKIP_MISSED", target_type="NOOP")["id"]
    told = pause(client, task, until=at(start + 120_000))
    assert (told["outcome"], told["estimate"], names(told)) == ("ENDED", None, ["paused"]), told
    assert told["explanation"].endswith("none of them runs (catch_up_mode). No occurrence is to come"), told
    assert [f["skipped"] for f in fires(client.get(f"/v1/tasks/{task}/upcoming"))] == [True]


@pytest.mark.text("no task runs")
def test_a_short_pause_of_a_schedule_takes_nothing(client):
    task = client.create(interval_seconds=3600, start_time=at(now_ms() + 3600_000), target_type="NOOP")
    end = at(now_ms() + 600_000)
    told = pause(client, task["id"], until=end)
    assert (told["outcome"], told["estimate"], names(told)) == ("RUN", task["next_execution"], ["paused", "due_time"]), told
    assert "missed" not in told["explanation"] and f"until {end}. It starts at {task['next_execution']}" in told["explanation"], told


@pytest.mark.text("no task runs")
def test_upcoming_fires_know_of_a_paused_queue(client):
    end = at(now_ms() + 90 * 60_000)
    assert client.request("PATCH", "/v1/queues/still", {"paused": True, "until": end}).status in (200, 201)
    hourly = client.create(interval_seconds=3600, start_time=at(now_ms() + 3600_000), queue="still", target_type="NOOP")["id"]
    once = client.create(delay="1h", queue="still", target_type="NOOP")["id"]
    waiting = client.create(interval_seconds=3600, start_time=at(now_ms() + 3600_000), overlap_policy="QUEUE_ALL", queue="still", target_type="NOOP")["id"]
    due = client.create(queue="still", target_type="NOOP")
    note = f"not while its queue still is paused, until {end}"
    assert fires(client.get(f"/v1/tasks/{due['id']}/upcoming")) == [{"at": due["run_at"], "note": note}]
    assert fires(client.get(f"/v1/tasks/{due['id']}/upcoming?from={at(to_ms(end) + 1)}")) == []
    skips = note + "; skipped if the run before it is not over by then"
    assert [f["note"] for f in fires(client.get(f"/v1/tasks/{hourly}/upcoming?count=2"))] == [skips, None]
    assert [f["note"] for f in fires(client.get(f"/v1/tasks/{waiting}/upcoming?count=2"))] == [note, None]
    found = fires(client.get(f"/v1/upcoming?queue=still&to={at(now_ms() + 9_000_000)}"))
    wanted = [(hourly, skips), (hourly, ""), (waiting, note), (waiting, ""), (once, note)]
    assert sorted((f["task_id"], f["note"] or "") for f in found) == sorted(wanted), found


@pytest.mark.text("no task runs")
def test_upcoming_says_that_a_fire_expires_at_the_end_of_a_pause(client):
    end = at(now_ms() // 1000 * 1000 + 3600_000)
    once = client.create(delay="2m", expires_after_seconds=60, target_type="NOOP")["id"]
    pause(client, once, until=end)
    assert fires(client.get(f"/v1/tasks/{once}/upcoming")) == [{"at": end, "note": "its pause ends; it expires then", "skipped": True}]
    assert client.request("PATCH", f"/v1/tasks/{once}", {"expires_after_seconds": 7200}).status == 200
    assert fires(client.get(f"/v1/tasks/{once}/upcoming")) == [{"at": end, "note": "its pause ends"}]


@pytest.mark.text("no task runs")
def test_upcoming_says_that_fires_expire_before_the_end_of_the_pause_of_a_queue(client):
    start = now_ms() // 1000 * 1000 + 600_000
    end = at(start + 10_000)
    assert client.request("PATCH", "/v1/queues/still", {"paused": True, "until": end}).status in (200, 201)
    body = {"queue": "still", "target_type": "NOOP", "start_time": at(start), "end_date": end}
    held = f"not while its queue still is paused, until {end}"
    every = client.create(interval_seconds=2, expires_after_seconds=3, overlap_policy="ALLOW", **body)["id"]
    expired = {"at": at(start), "note": f"{held}; it expires before that, at {at(start + 3000)}, as do all its times up to {at(start + 7000)}", "skipped": True}
    found = fires(client.get(f"/v1/tasks/{every}/upcoming?count=2"))
    assert found == [expired, {"at": at(start + 8000), "note": held}, {"at": end, "note": None}], found
    last = client.create(interval_seconds=2, expires_after_seconds=10, overlap_policy="ALLOW", max_runs=2, **body)["id"]
    found = fires(client.get(f"/v1/tasks/{last}/upcoming"))
    assert found[0]["note"] == f"{held}; it expires before that, at {end}" and [f["at"] for f in found[1:]] == [at(start + 2000), at(start + 4000)], found
    once = client.create(run_at=at(start), expires_after_seconds=5, queue="still", target_type="NOOP")["id"]
    [fire] = fires(client.get(f"/v1/tasks/{once}/upcoming"))
    assert fire["skipped"] and fire["note"] == f"{held}; it expires before that, at {at(start + 5000)}", fire
    span = f"/v1/upcoming?queue=still&from={at(start - 60_000)}&to={at(start + 10_000)}"
    listed = fires(client.get(span))
    assert [f["at"] for f in listed if f["task_id"] == every] == [at(start), at(start + 8000)], listed
    assert [f["skipped"] for f in listed if f["at"] == at(start)] == [True] * 3 and len(listed) == 3 + 3, listed
    assert sum(m["fires"] for m in client.get(span + "&group_by=hour").json["hours"]) == 3 + 1, "the hour is whole: one at the end of the pause is in it"


@pytest.mark.text("no task runs")
def test_an_occurrence_that_is_due_and_waits_for_its_queue_is_upcoming(client):
    end = at(now_ms() // 1000 * 1000 + 7200_000)
    assert client.request("PATCH", "/v1/queues/due", {"paused": True, "until": end}).status in (200, 201)
    made = client.create(interval_seconds=3600, overlap_policy="ALLOW", queue="due", target_type="NOOP")["id"]
    [due] = until(lambda: client.get(f"/v1/tasks/{made}/occurrences").json["tasks"], why="it is spawned")
    note = f"not while its queue due is paused, until {end}"
    next_ = at(to_ms(due["scheduled_for"]) + 3600_000)
    wanted = [{"at": due["scheduled_for"], "note": note}, {"at": next_, "note": note}]
    until(lambda: fires(client.get(f"/v1/tasks/{made}/upcoming?count=2")) == wanted, why=lambda: client.get(f"/v1/tasks/{made}/upcoming?count=2"))
    assert fires(client.get(f"/v1/tasks/{made}/upcoming?count=1")) == wanted[:1]
    assert fires(client.get(f"/v1/tasks/{made}/upcoming?count=1&from={end}"))[0]["at"] > next_

@pytest.mark.standalone("a breaker opens on the node that makes the calls")
@pytest.mark.own_server
def test_a_task_that_is_due_and_held_by_the_node_is_upcoming_with_the_reason(client, receiver):
    """By the rate of its queue, by a breaker, and for want of a worker."""
    def is_told(task, wanted, least_ms, most_ms):
        until(lambda: (x := fires(client.get(f"/v1/tasks/{task}/upcoming"))) and wanted in x[0]["note"] and least_ms < to_ms(x[0]["at"]) - now_ms() < most_ms,
              10, why=lambda: (client.get(f"/v1/tasks/{task}/upcoming"), gate(client, task)))

    receiver.answer("/late", Reply(429, headers={"Retry-After": "25"}))
    client.wait_for(client.create(retry={"max_attempts": 1}, delay="0s", **receiver.target("/late"))["id"], "FAILED")
    is_told(client.create(delay="0s", **receiver.target("/late"))["id"], "asked to be left alone until", 15_000, 26_000)
    assert client.request("PATCH", "/v1/queues/slow", {"max_dispatches_per_second": 0.05}).status in (200, 201)
    bodies = [{"queue": "slow", "target_type": "NOOP", "delay": "0s"}] * 2
    last = client.post("/v1/tasks/batch", bodies).json["tasks"][-1]["id"]
    is_told(last, "its queue slow has used up its rate for now", 10_000, 21_000)
    worked = client.create(queue="worked", target_type="WORKER")
    [fire] = fires(client.get(f"/v1/tasks/{worked['id']}/upcoming"))
    assert fire["at"] == worked["run_at"] and "it is due, and waits for a worker that asks" in fire["note"], fire


@pytest.mark.text("no task runs")
def test_what_the_end_of_a_pause_runs_may_expire_in_a_paused_queue(client):
    start = now_ms() // 1000 * 1000 + 600_000
    task = client.create(interval_seconds=3600, start_time=at(start), expires_after_seconds=60, queue="still", target_type="NOOP")["id"]
    pause(client, task, until=at(start + 30_000))
    for end, runs in ((start + 50_000, True), (start + 60_000, False)):
        assert client.request("PATCH", "/v1/queues/still", {"paused": True, "until": at(end)}).status in (200, 201)
        fire = fires(client.get(f"/v1/tasks/{task}/upcoming?count=1"))[0]
        assert fire["at"] == at(start + 30_000) and fire.get("skipped", False) is not runs, fire
        assert runs or fire["note"].endswith("none of them runs (expires_after_seconds)"), fire


@pytest.mark.text("no task runs")
def test_the_forecast_counts_fires_by_the_minute(client):
    for _ in range(4):
        client.create(cron_expression="0 8 * * *", target_type="NOOP")
    client.create(cron_expression="*/30 * * * *", target_type="NOOP")
    answer = client.get("/v1/upcoming?from=2030-06-01T07:30:00Z&to=2030-06-01T08:30:00Z&group_by=minute").json
    assert answer["minutes"] == [{"at": "2030-06-01T07:30:00.000Z", "fires": 1}, {"at": "2030-06-01T08:00:00.000Z", "fires": 5}]
    assert answer["complete"] is True


@pytest.mark.text("no task runs")
def test_the_forecast_does_not_count_fires_before_it_begins(client):
    """Minutes and hours are whole, but what has fired in the first one is not to come."""
    client.create(interval_seconds=10, start_time="2030-06-01T07:00:00Z", end_date="2030-06-01T07:31:00Z", target_type="NOOP")
    client.create(cron_expression="30 7 * * *", target_type="NOOP")
    for second in (15, 45):
        client.create(run_at=f"2030-06-01T07:30:{second}Z", target_type="NOOP")
    first = {"at": "2030-06-01T07:30:00.000Z"}
    minutes = client.get("/v1/upcoming?from=2030-06-01T07:30:20Z&to=2030-06-01T07:33:00Z&group_by=minute").json["minutes"]
    assert minutes == [{**first, "fires": 4 + 1}, {"at": "2030-06-01T07:31:00.000Z", "fires": 1}]
    hours = client.get("/v1/upcoming?from=2030-06-01T07:30:20Z&to=2030-06-01T08:30:00Z&group_by=hour").json["hours"]
    assert hours == [{**first, "fires": 4 + 1 + 1}]
    whole = client.get("/v1/upcoming?from=2030-06-01T07:30:00Z&to=2030-06-01T07:31:00Z&group_by=minute").json["minutes"]
    assert whole == [{**first, "fires": 6 + 1 + 2}]


@pytest.mark.text("no task runs")
def test_the_forecast_counts_fires_by_the_hour_for_a_month(client):
    client.create(cron_expression="15 8 * * *", target_type="NOOP")
    client.create(interval_seconds=2, start_time="2030-06-01T12:00:01Z", end_date="2030-06-01T14:00:00Z", target_type="NOOP")
    answer = client.get("/v1/upcoming?from=2030-06-01T07:30:00Z&to=2030-06-30T07:30:00Z&group_by=hour").json
    hours = {h["at"]: h["fires"] for h in answer["hours"]}
    assert answer["complete"] is True and "minutes" not in answer
    assert hours.pop("2030-06-01T11:30:00.000Z") == 900 and hours.pop("2030-06-01T12:30:00.000Z") == 1800 and hours.pop("2030-06-01T13:30:00.000Z") == 900
    assert len(hours) == 29 and set(hours.values()) == {1} and "2030-06-29T07:30:00.000Z" in hours


@pytest.mark.parametrize("query", ["from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "to=2999-01-01T00:00:00Z", "limit=0",
                                   "group_by=day", "from=2030-01-01T00:00:00Z&to=2030-01-05T00:00:00Z&group_by=minute"])
@pytest.mark.shared
def test_an_impossible_span_is_refused(client, query):
    assert client.get(f"/v1/upcoming?{query}").status == 400


@pytest.mark.text("no task runs")
def test_a_forecast_of_many_frequent_tasks_is_bounded(client):
    bodies = [{"interval_seconds": 1, "target_type": "NOOP", "start_time": "2031-01-01T00:00:00Z", "max_runs": 1000000} for _ in range(20)]
    assert client.post("/v1/tasks/batch", bodies).json["created"] == 20
    answer = client.get("/v1/upcoming?from=2031-01-01T00:00:00Z&to=2031-01-02T12:00:00Z&group_by=minute").json
    assert answer["complete"] is False


@pytest.mark.text("no task runs")
def test_add_says_when_a_cron_lands_on_a_crowded_minute(server, client, belfry):
    assert client.post("/v1/tasks/batch", [{"cron_expression": "0 8 * * *", "target_type": "NOOP"} for _ in range(40)]).json["created"] == 40
    environment = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    crowded = belfry("add", "--noop", "--cron", "0 8 * * *", env=environment)
    assert crowded.code == 0 and "41 tasks fire in that minute" in crowded.err
    assert belfry("add", "--noop", "--cron", "7 8 * * *", env=environment).err == ""
    listed = belfry("upcoming", "--minutes", "--from", "2030-06-01T07:59:00Z", env=environment)
    assert "41" in listed.out and listed.code == 0


def test_an_expectation_that_the_schedule_itself_misses_is_warned_of(server, client, belfry):
    hourly = {"cron_expression": "0 * * * *", "target_type": "NOOP"}
    warned = client.post("/v1/preview", {**hourly, "expect": {"within_seconds": 1800}}).json["warnings"]
    assert [w["field"] for w in warned] == ["expect.within_seconds"] and "missed after every run" in warned[0]["message"]
    for expect in ({"within_seconds": 3600}, {"success_by": "06:00"}, None):
        assert client.post("/v1/preview", {**hourly, "expect": expect}).json["warnings"] == []
    assert client.post("/v1/preview", {**hourly, "max_runs": 1, "expect": {"within_seconds": 1800}}).json["warnings"] == []
    task = client.create(**hourly, expect={"within_seconds": 1800}, name="hourly")["id"]  # it is not refused
    assert client.get(f"/v1/tasks/{task}/upcoming").json["warnings"] == warned
    environment = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    for words in (["add", "--noop", "--every", "1h", "--expect-within", "30m"], ["edit", "hourly", "--expect-within", "20m"]):
        said = belfry(*words, env=environment)
        assert (said.code, said.err) == (0, f"belfry {words[0]}: expect.within_seconds {warned[0]['message']}\n")
    assert belfry("edit", "hourly", "--expect-within", "2h", env=environment).err == ""


# ----------------------------------------------------------------------------------------------------------------------
# explanations


def gate(client, task_id):
    answer = client.get(f"/v1/tasks/{task_id}/explain")
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_a_task_explains_what_holds_it(client, receiver):
    waits = client.create(delay="1h", target_type="NOOP")
    told = gate(client, waits["id"])
    assert told["gate"] == "due_time" and 0 <= to_ms(told["estimate"]) - to_ms(waits["run_at"]) < 100
    client.act(waits["id"], "pause")
    assert gate(client, waits["id"])["gate"] == "paused"
    client.act(waits["id"], "cancel")
    told = gate(client, waits["id"])
    assert (told["gate"], told["status"]) == ("final", "CANCELLED") and "it ended at" in told["explanation"]
    recurring = client.create(cron_expression="0 0 1 1 *", target_type="NOOP")
    assert gate(client, recurring["id"])["estimate"] == recurring["next_execution"]


@pytest.mark.cluster
def test_a_schedule_that_starts_nothing_explains_that_its_runs_go_on(client, receiver):
    hold = threading.Event()
    receiver.answer("/slow", Reply(hold=hold))
    made = client.create(interval_seconds=3600, overlap_policy="ALLOW", **receiver.target("/slow"))["id"]
    receiver.wait("/slow")
    client.act(made, "pause")
    assert "resume it; 1 run of it goes on" in gate(client, made)["explanation"]
    client.act(made, "resume")
    client.act(made, "cancel")
    assert gate(client, made)["explanation"].endswith("; 1 run of it goes on")
    hold.set()
    until(lambda: "goes on" not in gate(client, made)["explanation"])


@pytest.mark.cluster
def test_a_run_that_waits_for_its_next_attempt_is_said_to_go_on(client, receiver):
    """Neither a pause nor the end of a schedule takes its retries; a cancel does."""
    receiver.answer("/fails", *[Reply(500)] * 4, Reply(200))
    retry = {"max_attempts": 9, "base_delay_ms": 3600_000, "max_delay_ms": 3600_000, "jitter": "NONE"}
    made = client.create(interval_seconds=3600, retry=retry, **receiver.target("/fails"))["id"]
    ended = client.create(interval_seconds=3600, max_runs=1, retry=retry, **receiver.target("/fails"))["id"]
    receiver.wait("/fails", 2)
    for one in (made, ended):
        until(lambda: [o["attempts"] for o in client.get(f"/v1/tasks/{one}/occurrences").json["tasks"] if o["status"] == "SCHEDULED"][:1] == [1])
    client.act(made, "pause")
    assert "resume it; 1 run of it goes on" in gate(client, made)["explanation"]
    client.wait_for(ended, "COMPLETED")
    assert gate(client, ended)["explanation"].endswith("; 1 run of it goes on")
    client.act(made, "cancel")
    assert "goes on" not in gate(client, made)["explanation"], "a cancel takes its retries"


@pytest.mark.cluster
def test_a_task_without_a_slot_names_who_holds_it(client, receiver):
    hold = threading.Event()
    receiver.answer("/slow", Reply(hold=hold))
    holder = client.create(concurrency_key="k", **receiver.target("/slow"))
    receiver.wait("/slow")
    waiting = client.create(concurrency_key="k", target_type="NOOP")
    client.wait_for(waiting["id"], "BLOCKED")
    told = gate(client, waiting["id"])
    assert told["gate"] == "concurrency_key" and [h["task_id"] for h in told["holders"]] == [holder["id"]]
    assert "'k'" in told["explanation"]
    hold.set()
    client.wait_for(waiting["id"], "COMPLETED")


def names(told):
    return [g["gate"] for g in told["gates"]]


@pytest.mark.text("no task runs")
@pytest.mark.own_server  # how many tasks of others may come before it decides what can be known
def test_an_expiry_before_the_end_of_a_pause_is_told(client):
    assert client.request("PATCH", "/v1/queues/still", {"paused": True, "until": at(now_ms() + 3600_000)}).status in (200, 201)
    task = client.create(delay="1m", queue="still", expires_after_seconds=600, target_type="NOOP")
    told = gate(client, task["id"])
    assert (told["outcome"], names(told)) == ("EXPIRED", ["due_time", "queue_paused", "expired"]), told
    assert to_ms(told["estimate"]) - to_ms(task["run_at"]) == 600_000
    longer = client.create(delay="1m", queue="still", expires_after_seconds=7200, target_type="NOOP")
    told = gate(client, longer["id"])
    assert told["outcome"] == "RUN" and told["estimate"] == told["gates"][-1]["until"], told


def pause(client, task, **body):
    assert client.post(f"/v1/tasks/{task}/pause", body).status == 200
    return gate(client, task)


@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_a_pause_of_a_task_hides_no_gate_behind_it(client):
    task = client.create(delay="5m", queue="shut", target_type="NOOP")["id"]
    end = at(now_ms() + 240_000)
    told = pause(client, task, until=end)
    assert (told["status"], told["outcome"], names(told)) == ("PAUSED", "RUN", ["paused", "due_time"]), told
    assert told["estimate"] == told["gates"][1]["until"] and 0 <= to_ms(told["estimate"]) - to_ms(client.task(task)["run_at"]) < 100, told
    assert client.request("PATCH", "/v1/queues/shut", {"paused": True}).status in (200, 201)
    run = client.post("/v1/workflows", {"definition": {"steps": [{"name": "a", "target_type": "NOOP"}]}, "queue": "shut"}).json["id"]
    every = client.create(interval_seconds=3600, queue="shut", target_type="NOOP")["id"]
    for one, gates in ((task, ["paused", "due_time", "queue_paused"]), (run, ["paused", "queue_paused"]), (every, ["paused", "queue_paused"])):
        for body, until_ in (({"until": end}, end), ({"until": None}, None)):
            told = pause(client, one, **body)
            assert (told["status"], told["outcome"], told["estimate"], names(told)) == ("PAUSED", "UNKNOWN", None, gates), told
            assert told["gates"][0]["until"] == until_ and told["gates"][-1]["until"] is None, told
    assert "a person must resume the queue" in pause(client, task, until=end)["explanation"]
    for one in (task, run, every):
        client.act(one, "cancel")


@pytest.mark.cluster
def test_a_limit_that_is_used_up_is_told_of_a_paused_task(client, receiver):
    hold = threading.Event()
    receiver.answer("/narrow", Reply(hold=hold))
    assert client.request("PATCH", "/v1/queues/narrow", {"max_concurrent": 1}).status in (200, 201)
    client.create(delay="0s", queue="narrow", concurrency_key="one", **receiver.target("/narrow"))
    receiver.wait("/narrow")
    for body, wanted in (({"queue": "narrow"}, "queue_concurrency"), ({"concurrency_key": "one"}, "concurrency_key")):
        told = pause(client, client.create(delay="1h", target_type="NOOP", **body)["id"], **{"for": "30s"})
        assert names(told) == ["paused", "due_time"], told  # the calls of now are over in an hour
        told = pause(client, client.create(delay="10s", target_type="NOOP", **body)["id"], **{"for": "5s"})
        assert told["outcome"] == "UNKNOWN" and names(told)[:2] == ["paused", "due_time"] and wanted in names(told), told
    hold.set()


@pytest.mark.text("no task runs")
def test_a_paused_task_is_said_to_expire_when_it_is_resumed(client, server, belfry):
    task = client.create(delay="1m", expires_after_seconds=60, target_type="NOOP")
    end = at(now_ms() + 600_000)
    told = pause(client, task["id"], until=end)
    assert (told["outcome"], told["estimate"], names(told)) == ("EXPIRED", end, ["paused", "expired"]), told
    assert f"It expires at {end} and will not run" in told["explanation"], told
    told = pause(client, task["id"], until=None)
    assert (told["outcome"], told["estimate"]) == ("UNKNOWN", None) and told["explanation"].endswith(", it expires when it is resumed"), told
    late = client.create(run_at=at(now_ms() - 3600_000), expires_after_seconds=86400, target_type="WORKER")["id"]
    pause(client, late)
    assert client.request("PATCH", f"/v1/tasks/{late}", {"expires_after_seconds": 60}).status == 200
    told = gate(client, late)
    assert (told["outcome"], told["estimate"]) == ("EXPIRED", None) and "It expires when it is resumed and will not run" in told["explanation"], told
    shown = belfry("explain", late, env={"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)})
    assert shown.lines[-1] == "Expires when it is resumed", shown


@pytest.mark.standalone("a breaker opens on the node that makes the calls")
@pytest.mark.own_server
def test_occurrences_that_a_held_run_makes_be_skipped_are_told(client, receiver):
    receiver.answer("/late", Reply(429, headers={"Retry-After": "25"}))
    once = client.create(retry={"max_attempts": 1}, delay="0s", **receiver.target("/late"))
    client.wait_for(once["id"], "FAILED")
    recurring = client.create(interval_seconds=2, overlap_policy="SKIP", **receiver.target("/late"))
    told = until(lambda: (x := gate(client, recurring["id"])) and x["outcome"] == "SKIPPED" and x, why=lambda: gate(client, recurring["id"]))
    assert "overlap" in names(told) and len(told["holders"]) == 1, told
    assert "All occurrences until then are skipped; the next one is at" in told["explanation"], told
    held = gate(client, told["holders"][0]["task_id"])
    assert (held["gate"], held["outcome"]) == ("host_breaker", "RUN"), held
    assert 15_000 < to_ms(held["estimate"]) - now_ms() < 26_000, held
    until(lambda: client.task(recurring["id"])["skipped_count"] >= 1, why="it is really skipped")


@pytest.mark.own_server  # beside other tenants, the share of its tenant may hold it too, and is told first
def test_an_occurrence_behind_one_that_waits_for_its_queue_may_be_skipped(client, receiver):
    """Both start at the end of the pause, and the later one is skipped if the other is not over at once."""
    hold = threading.Event()
    receiver.answer("/long", Reply(hold=hold))
    assert client.request("PATCH", "/v1/queues/calm", {"paused": True, "until": at(now_ms() + 3600_000)}).status in (200, 201)
    made = client.create(interval_seconds=1, overlap_policy="SKIP", queue="calm", **receiver.target("/long"))["id"]
    def past():
        return [o for o in client.get(f"/v1/tasks/{made}/occurrences?limit=100").json["tasks"] if to_ms(o["scheduled_for"]) < now_ms()]

    due = until(lambda: len(past()) > 1 and past()[-2], why="two of them wait")
    told = gate(client, due["id"])
    assert told["outcome"] == "UNKNOWN" and names(told)[0] == "queue_paused" and "overlap" in names(told), told
    assert ". Whether it starts cannot be known: it is skipped if an earlier run, which waits too, is not over by then" in told["explanation"], told
    assert client.request("PATCH", "/v1/queues/calm", {"paused": False}).status == 200
    client.wait_for(due["id"], "SKIPPED")
    hold.set()


@pytest.mark.standalone("its slots and calls are those of one process")
@pytest.mark.own_server
def test_a_task_that_waits_for_a_connection_does_not_run(client, receiver):
    hold = threading.Event()
    receiver.answer("/busy", Reply(hold=hold))
    bodies = [{"delay": "0s", **receiver.target("/busy")} for _ in range(256)]
    assert client.post("/v1/tasks/batch", bodies).json["created"] == 256
    receiver.wait("/busy", 256)
    task = client.create(delay="0s", **receiver.target("/busy"))["id"]
    told = until(lambda: (x := gate(client, task)) and x["gate"] == "host_busy" and x, why=lambda: gate(client, task))
    assert (told["status"], told["outcome"], told["estimate"]) == ("SCHEDULED", "UNKNOWN", None), told
    assert "cannot be known" in told["explanation"] and told["position"] is not None, told
    assert client.task(task)["status"] == "SCHEDULED"
    hold.set()
    done = client.wait_for(task, "COMPLETED")
    assert done["executions"][0]["delay_ms"] > 0


@pytest.mark.cluster
def test_a_full_queue_is_told_by_whichever_node_is_asked(client, receiver):
    hold = threading.Event()
    receiver.answer("/narrow", Reply(hold=hold))
    assert client.request("PATCH", "/v1/queues/narrow", {"max_concurrent": 1}).status in (200, 201)
    client.create(delay="0s", queue="narrow", **receiver.target("/narrow"))
    receiver.wait("/narrow")
    waiting = client.create(delay="0s", queue="narrow", target_type="NOOP")["id"]
    for _ in range(6):
        told = gate(client, waiting)
        assert (told["gate"], told["outcome"], told["estimate"]) == ("queue_concurrency", "UNKNOWN", None), told
        assert "cannot be known" in told["explanation"], told
    hold.set()
    client.wait_for(waiting, "COMPLETED")


@pytest.mark.cluster
@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_a_limit_with_room_for_all_holds_nobody(client):
    """Several tenants share the slots, and on several nodes their limits are shared: with room for all that runs and comes, it is known."""
    assert client.post("/v1/tenants", {"name": "another"}).status == 201
    for _ in range(3):
        told = gate(client, client.create(delay="20s", target_type="NOOP")["id"])
        assert (told["gate"], told["outcome"]) == ("due_time", "RUN") and told["estimate"], told
        assert [step["gate"] for step in told["gates"]] == ["due_time"], told


@pytest.mark.shared
def test_a_task_of_another_world_is_not_explained(client):
    assert client.get("/v1/tasks/01a1df5f-1be4-74aa-b483-8f6b493ca066/explain").status == 404
    assert client.get("/v1/tasks/01a1df5f-1be4-74aa-b483-8f6b493ca066/upcoming").status == 404


@pytest.mark.text("no task runs")
def test_the_command_line_explains(server, client, belfry):
    environment = {"BELFRY_SERVER": server.url, "BELFRY_DATA_DIR": str(server.data_dir)}
    task = client.create(name="t", run_at=at(int(now_ms()) + 3600000), target_type="NOOP")
    told = belfry("explain", task["id"], env=environment)
    assert told.code == 0 and told.out.startswith("SCHEDULED: it is due at ") and "\nExpected in " in told.out
    leased = client.create(name="leased", delay="1h", target_type="WORKER")
    told = belfry("explain", leased["id"], env=environment)
    assert "\n  due_time, until in " in told.out and "\nWhen cannot be known: then it waits for a worker" in told.out
    assert belfry("explain", env=environment).code == 2
    shown = belfry("upcoming", task["id"], env=environment)
    assert shown.code == 0 and len(shown.lines) == 2
