"""Business calendars: as JSON and as iCalendar files, in use by tasks, changed under them, and refused where they make no sense."""

import concurrent.futures
import datetime
import time

import pytest

from server import to_ms, until
from test_api import BAD_TEXTS, alive, assert_problem

pytestmark = pytest.mark.tenant

UTC = datetime.timezone.utc


def today():
    return datetime.datetime.now(UTC).date()


def day(offset):
    return today() + datetime.timedelta(days=offset)


def put(client, name, body, **more):
    return client.request("PUT", f"/v1/calendars/{name}", body, **more)


def put_ical(client, name, text, query="", **more):
    return client.request("PUT", f"/v1/calendars/{name}{query}", raw=text.encode() if isinstance(text, str) else text,
                          headers={"Content-Type": "text/calendar; charset=utf-8"}, **more)


def ical(*events, head=""):
    body = "".join(f"BEGIN:VEVENT\r\n{e}\r\nEND:VEVENT\r\n" for e in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{head}{body}END:VCALENDAR\r\n"


def dates(answer):
    return {d if isinstance(d, str) else d["date"]: "" if isinstance(d, str) else d["name"] for d in answer.json["excluded"]}


def next_day(client, task_id):
    return datetime.datetime.fromisoformat(client.task(task_id)["next_execution"].replace("Z", "+00:00")).date()


def daily(client, calendar, **more):
    """Fires in the middle of the day, so that no test comes near it: at noon, or at midnight if it is noon now."""
    hour = 0 if 6 <= datetime.datetime.now(UTC).hour < 18 else 12
    return client.create(cron_expression=f"0 {hour} * * *", calendar=calendar, target_type="NOOP", **more)


# ----------------------------------------------------------------------------------------------------------------------
# JSON


@pytest.mark.text("no task runs")
def test_a_calendar_comes_back_as_it_was_sent(client):
    sent = {"description": "Büro", "excluded_weekdays": ["SAT", "SUN"], "excluded": ["2026-12-24", {"date": "2026-12-25", "name": "Weihnachten"}],
            "included": [{"date": "2026-12-26", "name": "Inventur"}]}
    answer = put(client, "office", sent)
    assert answer.status == 201 and answer.headers["etag"] == '"1"'
    for got in (answer.json, client.get("/v1/calendars/office").json):
        for name, value in sent.items():
            assert got[name] == value, name
    [brief] = client.get("/v1/calendars").json["calendars"]
    assert (brief["name"], brief["excluded_count"], brief["included_count"], "excluded" in brief) == ("office", 2, 1, False)
    assert put(client, "office", {}, headers={"If-Match": '"1"'}).json["version"] == 2
    assert_problem(put(client, "office", {}, headers={"If-Match": '"1"'}), 412)
    assert client.request("DELETE", "/v1/calendars/office").status == 204
    assert_problem(client.get("/v1/calendars/office"), 404)
    assert_problem(client.request("DELETE", "/v1/calendars/office"), 404)


BAD = {
    "unknown field": ({"holidays": []}, "holidays"),
    "no date": ({"excluded": ["tomorrow"]}, "excluded[0]"),
    "no such day": ({"excluded": ["2026-02-28", "2026-02-30"]}, "excluded[1]"),
    "number": ({"excluded": [20261225]}, "excluded[0]"),
    "weekday": ({"excluded_weekdays": ["CATURDAY"]}, "excluded_weekdays[0]"),
    "name too long": ({"excluded": [{"date": "2026-12-25", "name": "x" * 300}]}, "excluded[0].name"),
    "too many": ({"excluded": ["2026-12-25"] * 20_001}, "excluded"),
    "no day left": ({"excluded_weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]}, "excluded_weekdays"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.shared
def test_a_bad_calendar_is_refused_by_its_field(client, case):
    body, field = BAD[case]
    problem = assert_problem(put(client, "c", body), 400)
    assert problem["errors"][0]["field"].startswith(field), problem
    assert_problem(client.get("/v1/calendars/c"), 404)


@pytest.mark.shared
def test_bad_texts_do_no_harm(client):
    for text in BAD_TEXTS:
        answer = client.request("PUT", "/v1/calendars/c", raw=text, headers={"Content-Type": "application/json"})
        assert answer.status == 400, (text[:30], answer)
        assert put_ical(client, "c", text).status == 400, text[:30]
    assert_problem(client.request("PUT", "/v1/calendars/c", raw=b"{}", headers={"Content-Type": "text/plain"}), 415)
    assert_problem(put_ical(client, "c", "x" * (5 << 20)), 413)
    assert alive(client)


# ----------------------------------------------------------------------------------------------------------------------
# iCalendar


@pytest.mark.text("no task runs")
def test_an_icalendar_file_becomes_excluded_dates(client):
    year = today().year + 1
    text = ical(f"UID:1\r\nSUMMARY:Neu\r\n jahr\r\nDTSTART;VALUE=DATE:{year}0101\r\nDTEND;VALUE=DATE:{year}0102",
                f"UID:2\r\nSUMMARY:Ferien\r\nDTSTART;VALUE=DATE:{year}0703\r\nDTEND;VALUE=DATE:{year}0706",
                f"UID:3\r\nSUMMARY:Umzug\r\nDTSTART;TZID=Europe/Berlin:{year}0910T220000\r\nDTEND;TZID=Europe/Berlin:{year}0911T060000",
                f"UID:4\r\nSUMMARY:weg\r\nSTATUS:CANCELLED\r\nDTSTART;VALUE=DATE:{year}1010",
                f"UID:5\r\nSUMMARY:spät\r\nDTSTART:{year}1231T233000Z\r\nDURATION:PT10M", head="X-WR-CALNAME:Feiertage\r\n")
    answer = put_ical(client, "de", text, "?weekends=exclude")
    assert answer.status == 201, answer
    assert dates(answer) == {f"{year}-01-01": "Neujahr", f"{year}-07-03": "Ferien", f"{year}-07-04": "Ferien", f"{year}-07-05": "Ferien",
                             f"{year}-09-10": "Umzug", f"{year}-09-11": "Umzug", f"{year}-12-31": "spät"}
    assert answer.json["description"] == "Feiertage" and answer.json["excluded_weekdays"] == ["SAT", "SUN"]
    berlin = put_ical(client, "de", text, "?time_zone=Europe/Berlin")
    assert f"{year + 1}-01-01" in dates(berlin), "in Berlin it is the next day already"
    assert_problem(put_ical(client, "de", text, "?time_zone=Mars/Olympus"), 400)
    assert_problem(put_ical(client, "de", text, "?weekends=maybe"), 400)
    assert_problem(put(client, "de?weekends=exclude", {}), 400)


@pytest.mark.text("no task runs")
def test_repeats_are_written_out_for_ten_years_and_exceptions_are_honoured(client):
    y = today().year
    text = ical(f"UID:1\r\nSUMMARY:Mayday\r\nDTSTART;VALUE=DATE:20000501\r\nRRULE:FREQ=YEARLY\r\nEXDATE;VALUE=DATE:{y + 2}0501",
                "UID:1\r\nSUMMARY:moved\r\nRECURRENCE-ID;VALUE=DATE:%d0501\r\nDTSTART;VALUE=DATE:%d0504" % (y + 3, y + 3),
                f"UID:2\r\nSUMMARY:once more\r\nDTSTART;VALUE=DATE:{y + 1}0202\r\nRDATE;VALUE=DATE:{y + 1}0204,{y + 1}0206",
                f"UID:3\r\nSUMMARY:three times\r\nDTSTART;VALUE=DATE:{y + 1}0301\r\nRRULE:FREQ=WEEKLY;COUNT=3")
    answer = put_ical(client, "c", text)
    assert answer.status == 201, answer
    found = dates(answer)
    assert {f"{i}-05-01" for i in range(y + 1, y + 10) if i not in (y + 2, y + 3)} <= set(found)
    assert found[f"{y + 3}-05-04"] == "moved" and f"{y + 3}-05-01" not in found and f"{y + 2}-05-01" not in found
    assert {f"{y + 1}-02-02", f"{y + 1}-02-04", f"{y + 1}-02-06"} <= set(found)
    assert {f"{y + 1}-03-01", f"{y + 1}-03-08", f"{y + 1}-03-15"} <= set(found) and f"{y + 1}-03-22" not in found
    assert f"{y - 2}-05-01" not in found and f"{y + 12}-05-01" not in found, "a year back, ten years ahead"


BAD_ICAL = {
    "empty": ("", "BEGIN:VCALENDAR"),
    "not ours": ("hello\r\nworld\r\n", "BEGIN:VCALENDAR"),
    "cut off": ("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", "whole file"),
    "end first": ("END:VCALENDAR\r\n", "END without"),
    "no start": (ical("SUMMARY:lost"), "'lost' has no DTSTART"),
    "no date": (ical("SUMMARY:odd\r\nDTSTART;VALUE=DATE:20261399"), "'odd'"),
    "far away": (ical("SUMMARY:far\r\nDTSTART;VALUE=DATE:99990101"), "between 1900 and 2200"),
    "backwards": (ical("SUMMARY:b\r\nDTSTART;VALUE=DATE:20260102\r\nDTEND;VALUE=DATE:20260101"), "ends before it begins"),
    "hourly": (ical("SUMMARY:h\r\nDTSTART:20260101T000000Z\r\nRRULE:FREQ=HOURLY"), "more than once a day"),
    "nonsense rule": (ical("SUMMARY:r\r\nDTSTART;VALUE=DATE:20260101\r\nRRULE:FREQ=SOMETIMES"), "RRULE"),
    "long": (ical("SUMMARY:l\r\nDTSTART;VALUE=DATE:20260101\r\nDTEND;VALUE=DATE:21990101"), "lasts longer"),
    "nested": ("BEGIN:VCALENDAR\r\n" + "BEGIN:X\r\n" * 100_000, "nested"),
    "many": (ical(*["DTSTART;VALUE=DATE:20260101"] * 5001), "5000 events"),
    "long line": (ical("SUMMARY:x\r\nDTSTART;VALUE=DATE:20260101\r\nEXDATE;VALUE=DATE:" + ",".join(["20260101"] * 20_000)), "64 KiB"),
    "binary": (b"BEGIN:VCALENDAR\r\n\xff\xfe\r\nEND:VCALENDAR\r\n", "UTF-8"),
}


@pytest.mark.parametrize("case", BAD_ICAL)
@pytest.mark.shared
def test_a_bad_icalendar_file_is_refused_with_the_reason(client, case):
    text, says = BAD_ICAL[case]
    problem = assert_problem(put_ical(client, "c", text), 400)
    assert says in problem["detail"], problem
    assert_problem(client.get("/v1/calendars/c"), 404)


@pytest.mark.parametrize("event, says", [
    ("SUMMARY:never\r\nDTSTART;VALUE=DATE:19000101\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "line 6: the RRULE never gives a date"),
    ("SUMMARY:rare\r\nDTSTART;VALUE=DATE:19000101\r\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU", "too long"),
], ids=["never", "rare"])
@pytest.mark.shared
def test_rules_whose_dates_hardly_come_do_not_keep_the_server(client, event, says):
    """Each of them is searched for centuries by the library; together they would take minutes."""
    begin = time.monotonic()
    problem = assert_problem(put_ical(client, "c", ical(*[event] * 1000)), 400)
    took_s = time.monotonic() - begin
    assert says in problem["detail"] and took_s < 30, (took_s, problem)
    assert alive(client)


@pytest.mark.text("no task runs")
def test_many_schedules_whose_short_intervals_move_beyond_clock_changes_are_made_at_once(client):
    """Tried step by step, the times of a day with a clock change would take 0.1 s or longer for each of them."""
    put(client, "far", {"excluded_weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"], "included": [str(day(365))]})
    task = {"interval_seconds": 0.1, "calendar": "far", "calendar_policy": "NEXT_DAY", "time_zone": "Europe/Berlin", "target_type": "NOOP"}
    begin = time.monotonic()
    answer = client.post("/v1/tasks/batch", [task] * 500)
    took_s = time.monotonic() - begin
    assert answer.status == 201 and took_s < 15, (took_s, answer)


@pytest.mark.text("no task runs")
def test_a_rule_without_dates_leaves_the_calendar_and_its_tasks_as_they_are(client):
    """Imported as no dates, or as others, the rule would open the holidays of a good calendar."""
    good = put(client, "office", {"excluded": [str(day(n)) for n in range(3)]})
    task = daily(client, "office")
    for rule, says in (("FREQ=MONTHLY;BYDAY=6MO", "BYDAY with a number above 5"), ("FREQ=WEEKLY;BYDAY=2MO", "BYDAY with a number"),
                       ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO"), ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never gives a date"),
                       ("FREQ=DAILY;UNTIL=20260631", "UNTIL '20260631'"), ("FREQ=FOO", "FREQ 'FOO'")):
        text = ical("DTSTART;VALUE=DATE:20260105", f"DTSTART;VALUE=DATE:20260105\r\nRRULE:{rule}")
        detail = assert_problem(put_ical(client, "office", text), 400)["detail"]
        assert "line 8: the RRULE" in detail and says in detail, detail
    now = client.get("/v1/calendars/office").json
    assert now == good.json, (now, good.json)
    assert next_day(client, task["id"]) == day(3) and client.task(task["id"])["version"] == task["version"]


# ----------------------------------------------------------------------------------------------------------------------
# in use


def ledger(client, task_id):
    """The rows of skipped times, by time. No time has two rows, and all rows together are skipped_count."""
    def check():
        before, rows, after = client.task(task_id), client.all(f"/v1/tasks/{task_id}/occurrences"), client.task(task_id)
        if before != after:  # something happened in between
            return None
        skipped = sorted((o["skipped"] for o in rows if o["status"] == "SKIPPED"), key=lambda s: s["from"])
        for a, b in zip(skipped, skipped[1:]):
            assert a["to"] < b["from"], f"two rows overlap: {a} and {b}"
        for o in rows:
            if o["status"] != "SKIPPED":
                assert not [s for s in skipped if s["from"] <= o["scheduled_for"] <= s["to"]], f"skipped and not: {o}"
        assert after["skipped_count"] == sum(s["count"] for s in skipped), (after, skipped)
        return skipped or [None]
    return [s for s in until(check, why="it does not come to rest") if s]


@pytest.mark.cluster
@pytest.mark.parametrize("schedule", [{"interval_seconds": 2}, {"cron_expression": "*/2 * * * * *"}], ids=["interval", "cron"])
def test_each_skipped_time_has_one_row_however_often_calendar_and_schedule_change(client, schedule):
    name, off = "off", [str(day(0)), str(day(1))]  # two days: it may be midnight
    put(client, name, {"excluded": off})
    task = client.create(calendar=name, target_type="NOOP", **schedule)["id"]
    until(lambda: client.task(task)["skipped_count"], why="no row")
    first = ledger(client, task)
    for i in range(2):  # of other days
        put(client, name, {"excluded": [*off, str(day(100 + i))]})
        until(lambda i=i: client.task(task)["version"] == i + 2, why="not applied")
        assert ledger(client, task)[0] == first[0], "nothing has changed for today"
    until(lambda: time.time() * 1000 > to_ms(first[0]["from"]) + 50, why="the clock stands still")  # a row is made ahead of its time
    put(client, name, {})
    until(lambda: client.task(task)["runs_count"] >= 1, why="it does not run again")
    free = ledger(client, task)
    assert free[0]["from"] == first[0]["from"] and free[0]["count"] < first[0]["count"], (free, first)
    put(client, name, {"excluded": off})
    until(lambda: len(ledger(client, task)) > len(free), why="the rest of the day has no row")
    client.act(task, "pause")
    client.act(task, "resume")
    ledger(client, task)
    edited = client.request("PATCH", f"/v1/tasks/{task}", {"interval_seconds": 3} if "interval_seconds" in schedule
                            else {"cron_expression": "*/5 * * * * *"})
    assert edited.status == 200, edited
    until(lambda: sum(s["to"] >= free[-1]["to"] for s in ledger(client, task)) >= 2, why="the edited schedule has no row")
    client.act(task, "cancel")
    now = datetime.datetime.now(UTC).isoformat()
    assert all(s["to"] < now for s in ledger(client, task)), "a cancelled schedule skips nothing that is to come"


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_a_task_skips_excluded_days_and_follows_a_change(client):
    put(client, "off", {"excluded": [str(day(i)) for i in range(3)]})
    task = daily(client, "off")
    assert next_day(client, task["id"]) == day(3)
    changed = put(client, "off", {"excluded": [str(day(i)) for i in range(6)]})
    assert changed.status == 200
    assert next_day(client, task["id"]) == day(6)
    put(client, "off", {})
    assert next_day(client, task["id"]) <= day(1), "days that are free again come back"
    assert client.task(task["id"])["version"] == 3, "each change is an edit of the task"


@pytest.mark.cluster
def test_a_paused_task_follows_a_change_too(client, receiver):
    put(client, "off", {"excluded": [str(day(i)) for i in range(6)]})
    task = client.create(interval_seconds=1, calendar="off", **receiver.target("/tick"))
    assert next_day(client, task["id"]) == day(6)
    client.act(task["id"], "pause")
    put(client, "off", {})
    client.act(task["id"], "resume")
    receiver.wait("/tick", 2)


@pytest.mark.cluster
def test_what_was_spawned_by_the_old_calendar_does_not_fire(client, receiver):
    put(client, "c", {})
    task = client.create(interval_seconds=1, calendar="c", **receiver.target("/tick"))
    receiver.wait("/tick", 2)
    put(client, "c", {"excluded": [str(day(0)), str(day(1))]})  # the next ten seconds are spawned already
    after = len(receiver.to("/tick"))
    client.create(interval_seconds=1, **receiver.target("/tock"))
    receiver.wait("/tock", 3)
    assert len(receiver.to("/tick")) <= after + 1, "one may have been on its way"
    assert next_day(client, task["id"]) == day(2)
    put(client, "c", {})
    receiver.wait("/tick", after + 2)


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_a_calendar_in_use_is_not_deleted(client):
    put(client, "used", {})
    names = [daily(client, "used", name=f"report {i}")["id"] for i in range(5)]
    problem = assert_problem(client.request("DELETE", "/v1/calendars/used"), 409)
    assert sum(i in problem["detail"] for i in names) == 3 and "and others" in problem["detail"], problem
    for i in names[1:]:
        assert client.request("DELETE", f"/v1/tasks/{i}").status == 204
    assert names[0] in assert_problem(client.request("DELETE", "/v1/calendars/used"), 409)["detail"]
    assert client.request("PATCH", f"/v1/tasks/{names[0]}", {"calendar": None}).status == 200
    assert client.request("DELETE", "/v1/calendars/used").status == 204
    problem = assert_problem(client.post("/v1/tasks", {"cron_expression": "0 0 * * *", "calendar": "used", "target_type": "NOOP"}), 400)
    assert problem["errors"][0]["field"] == "calendar"


@pytest.mark.cluster
@pytest.mark.text("no task runs")
def test_no_task_is_left_without_its_calendar_however_they_race(server):
    """Creates and deletes at once: a calendar that is gone has no users, one that is used is there."""
    def create(i):
        client = server.client()
        answers = [client.post("/v1/tasks", {"cron_expression": "0 0 1 1 *", "calendar": f"c{n}", "target_type": "NOOP", "name": f"c{n}"})
                   for n in range(20)]
        client.close()
        return [a.json["name"] for a in answers if a.status == 201]

    def delete(i):
        client = server.client()
        gone = [n for n in range(20) if client.request("DELETE", f"/v1/calendars/c{n}").status == 204]
        client.close()
        return gone

    client = server.client()
    for n in range(20):
        assert put(client, f"c{n}", {}).status == 201
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(f, i) for i, f in enumerate((create, delete, create, delete))]
        made = {name for j in jobs[0::2] for name in j.result()}
    there = {c["name"] for c in client.all("/v1/calendars", "calendars")}
    assert made <= there, made - there


@pytest.mark.text("no task runs")
@pytest.mark.own_server
def test_calendars_are_there_after_a_kill(server):
    client = server.client()
    put(client, "off", {"excluded": [str(day(i)) for i in range(3)]})
    server.kill()
    server.start()
    client = server.client()
    task = daily(client, "off")
    assert next_day(client, task["id"]) == day(3)
    until(lambda: client.get("/ready").status == 200)
    assert "spawn_impossible" not in server.log()
    assert to_ms(task["next_execution"]) > 0


@pytest.mark.text("no task runs")
def test_explain_says_that_times_are_left_out(client):
    assert put(client, "closed", {"excluded": [str(day(n)) for n in range(4)]}).status == 201
    task = daily(client, "closed", start_time=f"{day(1)}T00:00:00Z")
    told = client.get(f"/v1/tasks/{task['id']}/explain").json
    assert [g["gate"] for g in told["gates"]] == ["calendar", "due_time"] and told["gate"] == "calendar", told
    days = "; ".join(f"{day(n)} is excluded by the calendar" for n in range(1, 4))
    assert f"on are left out: {days}" in told["explanation"] and ". It is recurring, and its next occurrence is at" in told["explanation"], told
    assert (told["outcome"], told["estimate"]) == ("RUN", task["next_execution"]), told


@pytest.mark.text("no task runs")
def test_the_times_of_an_excluded_day_are_told_in_one_line_with_the_reason(client):
    assert put(client, "shut", {"excluded": [str(day(n)) for n in range(4)]}).status == 201
    often = {"target_type": "NOOP", "time_zone": "UTC", "calendar": "shut", "interval_seconds": 30, "start_time": "2026-01-01T00:00:00Z"}
    task = client.create(**often)["id"]
    told = client.get(f"/v1/tasks/{task}/explain").json
    assert [g["gate"] for g in told["gates"]] == ["calendar", "due_time"], told
    assert "its times from " in told["explanation"] and "is excluded by the calendar; " in told["explanation"], told
    rows = client.get(f"/v1/tasks/{task}/upcoming?count=2").json["upcoming"]
    skipped = [row["note"] for row in rows if row.get("skipped")]
    assert len(rows) == 2 + len(skipped) and 3 <= len(skipped) <= 4, rows
    assert all("is excluded by the calendar; 2880 times, the last at 23:59:30" in note for note in skipped[1:]), rows
    client.act(task, "cancel")


@pytest.mark.text("no task runs")
def test_a_time_that_is_moved_onto_another_one_is_told(client):
    assert put(client, "once", {"excluded": [str(day(2))]}).status == 201
    body = {"cron_expression": "0 12 * * *", "time_zone": "UTC", "calendar": "once", "calendar_policy": "NEXT_DAY", "start_time": f"{day(1)}T00:00:00Z"}
    rows = client.post("/v1/preview?count=2", body).json["upcoming"]
    assert [(row["at"][:10], row.get("skipped", False)) for row in rows] == [(str(day(1)), False), (str(day(2)), True), (str(day(3)), False)], rows
    assert "to a time at which another one fires" in rows[1]["note"], rows
