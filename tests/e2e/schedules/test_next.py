"""Everything `belfry next` promises, asked of the real binary."""

import datetime
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import TIMEOUT_S, read_terminal

MARCH = "2026-03-28T00:00:00Z"  # the day before Berlin's clocks go forward
OCTOBER = "2026-10-24T00:00:00Z"  # and back
BERLIN = ("--tz", "Europe/Berlin")

# Written down, not worked out: a task must not move when Belfry is upgraded.
H_OF_INVOICE_17 = tuple(f"2026-03-{day}T09:09:00.000Z" for day in (28, 29, 30))


@pytest.fixture(scope="session")
def fires(belfry):
    """The lines of a run that must succeed without a word on stderr."""
    def ask(*args):
        done = belfry("next", *args)
        assert (done.code, done.err) == (0, ""), (args, done)
        return done.lines
    return ask


@pytest.fixture(scope="session")
def objects(fires):
    return lambda *args: [json.loads(line) for line in fires("--json", *args)]


def instant_ms(text):
    moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return round(moment.timestamp() * 1000)


# ---- what is printed ----


def test_the_promised_example_to_the_letter(belfry):
    done = belfry("next", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T00:00:00Z", "--count", "3")
    assert done.out == "2026-03-28T01:30:00.000Z\n2026-03-29T01:00:00.000Z\n2026-03-30T00:30:00.000Z\n"
    assert (done.code, done.err) == (0, "")


def test_json_is_one_object_a_line_with_at_local_and_note(fires):
    lines = fires("30 2 * * *", *BERLIN, "--from", MARCH, "--count", "3", "--json")
    assert lines == [
        '{"at":"2026-03-28T01:30:00.000Z","local":"2026-03-28T02:30:00.000+01:00","note":null}',
        '{"at":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00",'
        '"note":"02:30 does not exist that day; fires when the clock has been set forward"}',
        '{"at":"2026-03-30T00:30:00.000Z","local":"2026-03-30T02:30:00.000+02:00","note":null}',
    ]


def test_local_times_carry_offsets_west_and_in_quarters(objects):
    west = objects("0 8 * * *", "--tz", "America/St_Johns", "--from", "2026-01-01T00:00:00Z", "-n", "1")
    assert west == [{"at": "2026-01-01T11:30:00.000Z", "local": "2026-01-01T08:00:00.000-03:30", "note": None}]
    nepal = objects("0 8 * * *", "--tz", "Asia/Kathmandu", "--from", "2026-01-01T00:00:00Z", "-n", "1")
    assert nepal[0]["local"] == "2026-01-01T08:00:00.000+05:45"


def test_a_terminal_gets_a_sentence_and_a_table(belfry):
    done = belfry("next", "30 2 * * *", *BERLIN, "--from", MARCH, "-n", "3", tty=True)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "At 02:30 every day, Europe/Berlin\n"
        "\n"
        "LOCAL                         UTC                       NOTE\n"
        "Sat 2026-03-28 02:30:00 CET   2026-03-28T01:30:00.000Z\n"
        "Sun 2026-03-29 03:00:00 CEST  2026-03-29T01:00:00.000Z  "
        "02:30 does not exist that day; fires when the clock has been set forward\n"
        "Mon 2026-03-30 02:30:00 CEST  2026-03-30T00:30:00.000Z\n")


def test_a_table_shows_what_is_skipped_and_on_which_day(belfry):
    done = belfry("next", "30 2 * * *", *BERLIN, "--from", MARCH, "-n", "2", "--dst-gap", "skip", tty=True)
    assert done.lines[3:] == [
        "Sat 2026-03-28 02:30:00 CET   2026-03-28T01:30:00.000Z",
        "Sun 2026-03-29 02:30:00       -                         "
        "skipped: 02:30 does not exist that day, the clock is set forward over it",
        "Mon 2026-03-30 02:30:00 CEST  2026-03-30T00:30:00.000Z",
    ]
    only = belfry("next", "30 2 29 3 *", *BERLIN, "--from", MARCH, "--to", "2026-04-01T00:00:00Z", "--dst-gap", "skip",
                  tty=True)
    assert "skipped: 02:30 does not exist that day" in only.lines[-1]
    assert only.err == "belfry next: there are no fires in that time\n"


def test_a_table_shows_milliseconds_only_where_there_are_any(belfry):
    done = belfry("next", "--every", "1500ms", "--start", "2026-01-01T00:00:00Z", "--from", "2026-01-01T00:00:00Z",
                  "-n", "2", tty=True)
    assert done.lines == ["Every 1s500ms, UTC", "", "LOCAL                            UTC                       NOTE",
                          "Thu 2026-01-01 00:00:00 UTC      2026-01-01T00:00:00.000Z",
                          "Thu 2026-01-01 00:00:01.500 UTC  2026-01-01T00:00:01.500Z"]


ICS = "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", "BEGIN:VEVENT", "UID:1", "DTSTART;VALUE=DATE:20261225", "SUMMARY:Christmas Day",
                   "END:VEVENT", "END:VCALENDAR", ""])
DAYS = json.dumps({"name": "de", "version": 2, "created_at": "x", "updated_at": "x", "excluded_weekdays": ["SAT", "SUN"], "excluded": [{"date": "2026-12-25", "name": "Christmas Day"}]})


@pytest.mark.parametrize("text, more", [(ICS, ["--no-weekends"]), (DAYS, [])])
def test_a_calendar_file_decides_the_days(belfry, tmp_path, text, more):
    (tmp_path / "days").write_text(text)
    ask = ["next", "0 8 * * *", "--from", "2026-12-24T00:00:00Z", "--count", "2", "--calendar", tmp_path / "days", *more]
    assert belfry(*ask).lines == ["2026-12-24T08:00:00.000Z", "2026-12-28T08:00:00.000Z"]
    skips = [json.loads(line) for line in belfry(*ask, "--json", "--skips").lines]
    assert [row["note"] for row in skips if row.get("skipped")] == [
        f"skipped: {day} is excluded by the calendar" for day in ("2026-12-25 (Christmas Day)", "2026-12-26 (Saturday)", "2026-12-27 (Sunday)")]
    moved = belfry(*ask, "--calendar-policy", "next-day", "--count", "2", "--json")
    assert json.loads(moved.lines[1])["at"] == "2026-12-28T08:00:00.000Z"


def test_a_calendar_file_that_cannot_be_used_is_named(belfry, tmp_path):
    (tmp_path / "days").write_text('{"excluded": ["x"]}')
    assert belfry("next", "@daily", "--calendar", tmp_path / "days").err.startswith("belfry next: --calendar cannot be used: excluded[0]")
    assert "--calendar cannot be used" in belfry("next", "@daily", "--calendar", tmp_path / "none").err
    assert belfry("next", "@daily", "--no-weekends").err == "belfry next: --no-weekends requires --calendar\n"


def test_json_on_a_terminal_stays_json(belfry):
    args = ("next", "30 2 * * *", *BERLIN, "--from", MARCH, "-n", "3", "--json")
    assert belfry(*args, tty=True).out == belfry(*args).out


def test_a_long_table_keeps_its_columns_from_page_to_page(belfry):
    done = belfry("next", "* * * * *", "--from", MARCH, "-n", "2000", tty=True)
    rows = done.lines[2:]
    assert len(rows) == 2001
    assert rows.count("LOCAL                        UTC                       NOTE") == 1
    assert {row.index("2026-", 10) for row in rows[1:]} == {len("Sat 2026-03-28 00:00:00 UTC  ")}


def test_nothing_that_fires_is_said_and_is_no_failure(belfry):
    done = belfry("next", "0 8 * * *", "--from", MARCH, "--to", "2026-03-28T07:00:00Z")
    assert (done.code, done.out, done.err) == (0, "", "belfry next: there are no fires in that time\n")
    late = belfry("next", "0 8 * * *", "--from", "9999-12-31T23:59:59Z")
    assert (late.code, late.out, late.err) == (0, "", "belfry next: there are no fires in that time\n")


# ---- how much is printed ----


def test_five_from_now_on_are_the_default(fires):
    before = time.time()
    lines = fires("* * * * * *")
    assert len(lines) == 5
    assert before - 1 <= instant_ms(lines[0]) / 1000 <= time.time() + 1


@pytest.mark.parametrize("flag", [("--count", "7"), ("--count=7",), ("-n", "7"), ("-n7",)])
def test_count_is_how_many(fires, flag):
    assert len(fires("0 8 * * *", *flag)) == 7


def test_from_is_inclusive_and_to_is_exclusive(fires):
    lines = fires("0 * * * *", "--from", "2026-01-01T01:00:00Z", "--to", "2026-01-01T04:00:00Z")
    assert lines == [f"2026-01-01T0{h}:00:00.000Z" for h in (1, 2, 3)]
    assert fires("0 * * * *", "--from", "2026-01-01T01:00:00.001Z", "-n", "1") == ["2026-01-01T02:00:00.000Z"]


def test_count_and_to_bound_together(fires):
    assert len(fires("0 * * * *", "--from", MARCH, "--to", "2026-03-29T00:00:00Z")) == 24
    assert len(fires("0 * * * *", "--from", MARCH, "--to", "2026-03-29T00:00:00Z", "-n", "3")) == 3
    assert len(fires("0 * * * *", "--from", MARCH, "--to", "2026-03-28T02:00:00Z", "-n", "9")) == 2


def test_times_may_have_any_offset(fires):
    assert fires("0 8 * * *", "--from", "2026-03-28T10:00:00+02:00", "-n", "1") == ["2026-03-28T08:00:00.000Z"]
    assert fires("0 8 * * *", "--from", "2026-03-28 03:00:01-05:00", "-n", "1") == ["2026-03-29T08:00:00.000Z"]


def test_start_and_end_bound_an_expression_inclusively(fires):
    args = ("0 * * * *", "--from", MARCH, "--start", "2026-03-28T05:00:00Z", "--end", "2026-03-28T07:00:00Z")
    assert fires(*args) == [f"2026-03-28T0{h}:00:00.000Z" for h in (5, 6, 7)]


def test_an_interval_is_anchored_to_its_start_and_never_drifts(fires):
    args = ("--every", "90m", "--start", "2026-01-01T00:00:00Z")
    assert fires(*args, "--from", "2026-03-29T00:00:00Z", "-n", "3", *BERLIN) == [
        "2026-03-29T00:00:00.000Z", "2026-03-29T01:30:00.000Z", "2026-03-29T03:00:00.000Z"]
    assert fires(*args, "--from", "2026-01-01T00:00:00.001Z", "-n", "1") == ["2026-01-01T01:30:00.000Z"]
    assert fires(*args, "--from", "2025-01-01T00:00:00Z", "-n", "1") == ["2026-01-01T00:00:00.000Z"]
    assert fires(*args, "--from", "2025-01-01T00:00:00Z", "--end", "2026-01-01T01:30:00Z") == [
        "2026-01-01T00:00:00.000Z", "2026-01-01T01:30:00.000Z"]


def test_an_interval_without_a_start_starts_at_from(fires):
    assert fires("--every", "1d", "--from", "2026-01-01T00:00:07.250Z", "-n", "2") == [
        "2026-01-01T00:00:07.250Z", "2026-01-02T00:00:07.250Z"]


def test_rules_reach_from_1970_to_2200(fires, belfry):
    assert fires("0 0 1 1 *", "--from", "0000-01-01T00:00:00Z", "-n", "1") == ["1970-01-01T00:00:00.000Z"]
    assert fires("0 0 1 1 *", "--from", "2199-06-01T00:00:00Z") == ["2200-01-01T00:00:00.000Z"]
    assert belfry("next", "--every", "1d", "--start", "2199-01-01T00:00:00Z", "--from", "2300-01-01T00:00:00Z").out == ""


# ---- expressions ----


def test_an_expression_may_come_unquoted(fires):
    quoted = fires("0 8 * * MON-FRI", "--from", MARCH, *BERLIN)
    assert fires("0", "8", "*", "*", "MON-FRI", "--from", MARCH, *BERLIN) == quoted
    assert fires("--from", MARCH, "0", "8", *BERLIN, "*", "*", "MON-FRI") == quoted
    assert fires("--from", MARCH, *BERLIN, "--", "0", "8 * *", "MON-FRI") == quoted
    assert quoted[0] == "2026-03-30T06:00:00.000Z"


@pytest.mark.parametrize("macro, same", [
    ("@hourly", "0 * * * *"), ("@daily", "0 0 * * *"), ("@midnight", "0 0 * * *"), ("@weekly", "0 0 * * SUN"),
    ("@monthly", "0 0 1 * *"), ("@yearly", "0 0 1 1 *"), ("@annually", "0 0 1 1 *"), ("@DAILY", "0 0 ? * *"),
])
def test_macros_are_short_for_expressions(fires, macro, same):
    args = ("--from", MARCH, *BERLIN, "-n", "40")
    assert fires(macro, *args) == fires(same, *args)


@pytest.mark.parametrize("expression, first", [
    ("0 9 L * *", "2026-03-31"), ("0 9 L-2 * *", "2026-03-29"), ("0 9 LW * *", "2026-03-31"),
    ("0 9 29W * *", "2026-03-30"), ("0 9 * * FRI#1", "2026-04-03"), ("0 9 * * MONL", "2026-03-30"),
    ("0 9 13 * FRI", "2026-04-03"), ("0 9 */2 * FRI", "2026-04-03"), ("0 9 ? * 7", "2026-03-29"),
    ("0 9 29 FEB ?", "2028-02-29"), ("0 9 31 * *", "2026-03-31"), ("0 9 1,15 * *", "2026-04-01"),
])
def test_days_are_found(fires, expression, first):
    assert fires(expression, "--from", MARCH, "-n", "1") == [first + "T09:00:00.000Z"]


def test_six_fields_have_seconds(fires):
    assert fires("*/20 59 23 * * *", "--from", MARCH, "-n", "4") == [
        "2026-03-28T23:59:00.000Z", "2026-03-28T23:59:20.000Z", "2026-03-28T23:59:40.000Z", "2026-03-29T23:59:00.000Z"]


# ---- by task ----


def test_h_is_stable_by_id_and_differs_between_ids(fires):
    ask = lambda task: tuple(fires("H H * * *", "--id", task, "--from", MARCH, "-n", "3"))
    seen = {task: ask(task) for task in ("a", "b", "c", "d", "e", "invoice-17")}
    assert all(ask(task) == times for task, times in seen.items())
    assert len(set(seen.values())) > 3
    assert seen["invoice-17"] == H_OF_INVOICE_17


def test_h_stays_within_its_range(fires):
    for task in range(12):
        minute = int(fires("H(10-19) 5 * * *", "--id", str(task), "--from", MARCH, "-n", "1")[0][14:16])
        assert 10 <= minute <= 19
        steps = [int(line[14:16]) for line in fires("H/15 * * * *", "--id", str(task), "--from", MARCH, "-n", "4")]
        assert steps == [steps[0] + 15 * k for k in range(4)] and steps[0] < 15


def test_h_without_an_id_is_answered_with_a_hint(belfry):
    done = belfry("next", "H 8 * * *", "--from", MARCH, "-n", "1")
    assert done.code == 0 and len(done.lines) == 1
    assert done.err == "belfry next: H depends on the task's id; give it with --id\n"


def test_spread_moves_all_fires_of_a_task_by_the_same_part(fires, objects):
    plain = fires("0 8 * * *", "--from", MARCH, "-n", "3")
    offsets = {}
    for task in ("a", "b", "c"):
        found = objects("0 8 * * *", "--spread", "10m", "--id", task, "--from", MARCH, "-n", "3")
        assert all(re.fullmatch(r"spread by (\d+m)?(\d+s)?(\d+ms)?", f["note"]) for f in found)
        offsets[task] = {instant_ms(f["at"]) - instant_ms(p) for f, p in zip(found, plain)}
        assert len(offsets[task]) == 1 and 0 <= min(offsets[task]) < 600_000
        # It may begin before --from: what counts is when it fires.
        assert objects("0 8 * * *", "--spread", "10m", "--id", task, "--from", found[0]["at"], "-n", "1")[0] == found[0]
    assert len(set(map(tuple, offsets.values()))) > 1


# ---- when the clock changes ----


@pytest.mark.parametrize("expression, flags, expected", [
    ("30 2 * * *", (), ["01:00"]),
    ("30 2 * * *", ("--dst-gap", "shift"), ["01:00"]),
    ("30 2 * * *", ("--dst-gap", "skip"), []),
    ("*/30 2 * * *", (), []),
    ("*/30 2 * * *", ("--dst-gap", "SHIFT"), ["01:00"]),
    ("0 3 * * *", (), ["01:00"]),
    ("0,30 2,3 * * *", (), ["01:00", "01:30"]),
])
def test_spring(belfry, expression, flags, expected):
    done = belfry("next", expression, *BERLIN, "--from", "2026-03-29T00:30:00Z", "--to", "2026-03-29T12:00:00Z", *flags)
    assert done.code == 0 and [line[11:16] for line in done.lines] == expected


@pytest.mark.parametrize("expression, flags, expected", [
    ("30 2 * * *", (), ["00:30"]),
    ("30 2 * * *", ("--dst-overlap", "first"), ["00:30"]),
    ("30 2 * * *", ("--dst-overlap", "last"), ["01:30"]),
    ("30 2 * * *", ("--dst-overlap=both",), ["00:30", "01:30"]),
    ("*/30 2 * * *", (), ["00:00", "00:30", "01:00", "01:30"]),
    ("*/30 2 * * *", ("--dst-overlap", "first"), ["00:00", "00:30"]),
    ("*/30 2 * * *", ("--dst-overlap", "last"), ["01:00", "01:30"]),
])
def test_autumn(fires, expression, flags, expected):
    lines = fires(expression, *BERLIN, "--from", "2026-10-25T00:00:00Z", "--to", "2026-10-25T12:00:00Z", *flags)
    assert [line[11:16] for line in lines] == expected


def test_the_first_instant_after_the_gap_is_nobodys_shift(objects):
    note = lambda text: [f["note"] for f in objects(text, *BERLIN, "--from", "2026-03-29T01:00:00Z", "-n", "1")]
    assert note("0 3 * * *") == [None]
    assert note("0 2,3 * * *") == ["02:00 does not exist that day; fires when the clock has been set forward"]
    assert note("59 1 * * *") == [None]


def test_copies_say_which_they_are(objects):
    both = objects("30 2 * * *", *BERLIN, "--from", OCTOBER, "--to", "2026-10-26T00:00:00Z", "--dst-overlap", "both")
    assert [f["note"] for f in both] == [None, "02:30 comes twice that day; this is the first",
                                         "02:30 comes twice that day; this is the second"]
    assert [f["local"][11:] for f in both] == ["02:30:00.000+02:00", "02:30:00.000+02:00", "02:30:00.000+01:00"]


def test_skips_are_told_when_asked_for(objects):
    args = ("30 2 * * *", *BERLIN, "--from", MARCH, "--dst-gap", "skip", "-n", "2")
    told = objects(*args, "--skips")
    assert [f.get("skipped", False) for f in told] == [False, True, False]
    assert told[1]["note"] == "skipped: 02:30 does not exist that day, the clock is set forward over it"
    assert [f for f in told if not f.get("skipped")] == objects(*args)


# ---- wrong usage ----

# arguments; what the sentence must begin with (behind "belfry next: "); what else it must say
WRONG = [
    # an expression as a whole
    (["* * * *"], "expression: ", "has 4 fields; expected 5"),
    (["*"], "expression: ", "has 1 field;"),
    (["* * * * * * *"], "expression: ", "year field is not supported"),
    ([""], "expression: ", "is empty"),
    (["   "], "expression: ", "is empty"),
    (["@dayly"], "expression: ", "did you mean @daily?"),
    (["@reboot"], "expression: ", "@reboot"),
    (["@every 5m"], "expression: ", "use an interval"),
    (["@daily 5"], "expression: ", "nothing may follow @daily"),
    (["CRON_TZ=UTC 0 8 * * *"], "expression: ", "a time zone is given apart"),
    (["TZ=UTC 0 8 * * *"], "expression: ", "a time zone is given apart"),
    (["0 " * 300 + "* * *"], "expression: ", "at most 256"),
    (["0" * 5000 + " 8 * * *"], "expression: ", "at most 256"),
    (["0,"] * 2000, "expression: ", "at most 256"),
    (["--every", "5m", "--dst-gap", "skip"], "--every ", "leave out --dst-gap"),
    (["--every", "5m", "--dst-overlap", "both"], "--every ", "leave out --dst-gap"),
    # each of its fields
    (["60 * * * * *"], "second: ", "60 is not between 0 and 59"),
    (["60 * * * *"], "minute: ", "60 is not between 0 and 59"),
    (["-1 * * * *", "--"], "-1 * * * * ", "is not an option"),
    (["--", "-1 * * * *"], "minute: ", "unexpected '-' at position 1"),
    (["5- * * * *"], "minute: ", "is missing after '-'"),
    (["30-10 * * * *"], "minute: ", "runs backwards; write 30-59,0-10"),
    (["*/0 * * * *"], "minute: ", "step 0"),
    (["*/61 * * * *"], "minute: ", "61 is not between 1 and 60"),
    (["1,,2 * * * *"], "minute: ", "unexpected ','"),
    (["99999999999999999999 * * * *"], "minute: ", "999999999... is not between"),
    (["5 24 * * *"], "hour: ", "24 is not between 0 and 23"),
    (["5 x * * *"], "hour: ", "'x' at position 3 is not a number"),
    (["5 1.5 * * *"], "hour: ", "unexpected '.'"),
    (["5 5 0 * *"], "day of month: ", "0 is not between 1 and 31"),
    (["5 5 32 * *"], "day of month: ", "32 is not between 1 and 31"),
    (["5 5 30 2 *"], "day of month: ", "February never has 30 days"),
    (["5 5 31 4,6 *"], "day of month: ", "no date ever matches"),
    (["5 5 L-31 * *"], "day of month: ", "31 is not between 1 and 30"),
    (["5 5 H(1-31) * *"], "day of month: ", "end its range at 28"),
    (["5 5 * 13 *"], "month: ", "13 is not between 1 and 12"),
    (["5 5 * JAM *"], "month: ", "did you mean JAN?"),
    (["5 5 * ? *"], "month: ", "unexpected '?'"),
    (["5 5 * * 8"], "day of week: ", "8 is not between 0 and 7"),
    (["5 5 * * MUN"], "day of week: ", "did you mean"),
    (["5 5 * * FRI-MON"], "day of week: ", "write FRI-SUN,MON"),
    (["5 5 * * FRI#6"], "day of week: ", "6 is not between 1 and 5"),
    (["5 5 * * L"], "day of week: ", "lacks its day"),
    # zones
    (["0 8 * * *", "--tz", "Europe/Berln"], "--tz", "did you mean Europe/Berlin?"),
    (["0 8 * * *", "--tz", "europe/berlin"], "--tz", "did you mean Europe/Berlin?"),
    (["0 8 * * *", "--tz", "Mars/Olympus"], "--tz", "unknown time zone 'Mars/Olympus'"),
    (["0 8 * * *", "--tz", "../../etc/passwd"], "--tz", "is not a time zone name"),
    (["0 8 * * *", "--tz", "/usr/share/zoneinfo/UTC"], "--tz", "is not a time zone name"),
    (["0 8 * * *", "--tz", ""], "--tz", "is not a time zone name"),
    (["0 8 * * *", "--tz", "A" * 5000], "--tz", "is not a time zone name"),
    (["0 8 * * *", "--tz", "tzdata.zi"], "--tz", "is not a time zone name"),
    # times
    (["0 8 * * *", "--from", "tomorrow"], "--from ", "where the year (4 digits) is expected"),
    (["0 8 * * *", "--from", ""], "--from ", "is empty"),
    (["0 8 * * *", "--from", "2026-03-28T"], "--from ", "the hour (2 digits) is expected"),
    (["0 8 * * *", "--from", "2026-03-28T00:00:00"], "--from ", "needs an offset"),
    (["0 8 * * *", "--to", "2026-02-30T00:00:00Z"], "--to ", "has day 30, which does not exist in February"),
    (["0 8 * * *", "--to", "2026-13-01T00:00:00Z"], "--to ", "has month 13, which is not between"),
    (["0 8 * * *", "--start", "2026-01-01T25:00:00Z"], "--start ", "has hour 25, which is not between"),
    (["0 8 * * *", "--end", "2026-01-01T00:00:00Zulu"], "--end ", "'u' at character 21"),
    (["0 8 * * *", "--end", "1767225600"], "--end ", ""),
    # durations
    (["--every", "90"], "--every ", "needs a unit"),
    (["--every", "1.5h"], "--every ", "whole numbers only"),
    (["--every", "0s"], "--every ", "must be"),
    (["--every", "-5m"], "--every ", "must not be negative"),
    (["--every", "5 minutes"], "--every ", ""),
    (["--every", "5m1h"], "--every ", "larger units come first"),
    (["--every", "99999999999999999999d"], "--every ", "a century"),
    (["0 8 * * *", "--spread", "10x"], "--spread ", "is not a unit"),
    (["0 8 * * *", "--spread", ""], "--spread ", "is empty"),
    # numbers, choices, flags
    (["0 8 * * *", "--count", "0"], "--count ", "between 1 and 100000"),
    (["0 8 * * *", "--count", "-3"], "--count ", "between 1 and 100000"),
    (["0 8 * * *", "--count", "100001"], "--count ", "between 1 and 100000"),
    (["0 8 * * *", "--count", "9" * 400], "--count ", "between 1 and 100000"),
    (["0 8 * * *", "--count", "3.5"], "--count ", "a whole number"),
    (["0 8 * * *", "-n", "five"], "-n ", "a whole number"),
    (["0 8 * * *", "--dst-gap", "jump"], "--dst-gap ", "one of shift, skip, not 'jump'"),
    (["0 8 * * *", "--dst-overlap", "second"], "--dst-overlap ", "one of first, last, both"),
    (["0 8 * * *", "--json=yes"], "--json ", "takes no value"),
    (["0 8 * * *", "--cuont", "3"], "--cuont ", "did you mean --count?"),
    (["0 8 * * *", "--nonsense"], "--nonsense ", "is not an option"),
    (["0 8 * * *", "-x"], "-x ", "is not an option"),
    (["0 8 * * *", "--tz"], "--tz", "needs a value"),
    (["0 8 * * *", "--tz", "--json"], "--tz", "'--json' is an option"),
    (["0 8 * * *", "--skips"], "--skips ", "requires --json"),
    # together
    ([], "an expression is missing", "give one in quotes, or use --every"),
    (["--count", "3"], "an expression is missing", "give one in quotes, or use --every"),
    (["0 8 * * *", "--every", "5m"], "--every ", "give only one of them"),
    # bytes that are no text
    (["0 8 * *\x07 *"], "month: ", "unexpected byte 0x07 at position 8"),
    (["0 8 * * *\n"], "day of week: ", "byte 0x0A"),
    (["0 8 * * \x1b[31m"], "day of week: ", "byte 0x1B"),
    (["０ 8 * * *"], "minute: ", "only plain ASCII"),
    ([b"0 8 * * \xff"], "day of week: ", "byte 0xFF"),
    ([b"\xc3 8 * * *"], "minute: ", "byte 0xC3"),
    (["0 8 * * *", "--tz", "Eur\x1b[31mope"], "--tz", "Eur?[31mope"),
    (["0 8 * * *", "--tz", b"Eur\xffope"], "--tz", "Eur?ope"),
    (["0 8 * * *", "--tz", "Ä" * 500], "--tz", "is not a time zone name"),
    (["0 8 * * *", "--from", b"2026\xff"], "--from ", "byte 0xff"),
    (["0 8 * * *", "--count", "3\x1b[31m"], "--count ", "'3?[31m'"),
    (["0 8 * * *", "--count", b"\xff" * 300], "--count ", "????"),
    (["0 8 * * *", b"--\xff\x1b"], "--?? ", "is not an option"),
    (["0 8 * * *", b"-\xff"], "-", "is not an option"),
    (["0 8 * * *", "--" + "x" * 100_000], "--xxx", "is not an option"),
    (["0 8 * * *", "--dst-gap", "ß\x7f"], "--dst-gap ", "'ß?'"),
    (["0 8 * * *", "--from", "--to=\x1b[31m"], "--from ", "needs a value"),
]


@pytest.mark.parametrize("args, field, sentence", WRONG, ids=range(len(WRONG)))
def test_wrong_usage_is_named(belfry, args, field, sentence):
    done = belfry("next", *args)
    assert done.code == 2, done
    assert done.out == ""
    first = done.err.splitlines()[0]
    assert first.startswith("belfry next: " + field), first
    assert sentence in first, first
    assert len(done.err) < 700
    assert done.err.endswith("\n")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\udc80-\udcff]", done.err), "raw bytes reach the terminal"


def test_an_option_gone_wrong_points_to_help(belfry):
    assert belfry("next", "0 8 * * *", "--cuont", "3").err == (
        "belfry next: --cuont is not an option, did you mean --count?\nTry 'belfry next --help'.\n")


def test_wrong_usage_is_told_on_a_terminal_alike(belfry):
    args = ("next", "5 5 * * FRI#6")
    assert belfry(*args, tty=True) == belfry(*args)


# ---- where the output goes ----


def start(build, *args, stdout):
    return subprocess.Popen([build / "belfry", "next", *args], stdout=stdout, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_reader_that_goes_away_ends_it_quickly_and_quietly(build, flags):
    belfry = start(build, "* * * * * *", "--from", "1970-01-01T00:00:00Z", "--to", "2200-01-01T00:00:00Z", *flags,
                   stdout=subprocess.PIPE)
    assert b"1970-01-01T00:00:00.000Z" in belfry.stdout.readline()
    belfry.stdout.close()
    began = time.monotonic()
    assert belfry.wait(TIMEOUT_S) == 0
    assert time.monotonic() - began < 5
    assert belfry.stderr.read() == b""
    belfry.stderr.close()


def test_head_is_content(build):
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" next "* * * * * *" --to 2200-01-01T00:00:00Z | head -1',
                           build / "belfry"], capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)


@pytest.mark.parametrize("flags", [(), ("--json",), ("-n", "50000"), ("--help",)])
def test_a_full_disk_is_a_failure_with_its_reason(build, flags):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([build / "belfry", "next", "0 8 * * *", *flags], stdout=full, stderr=subprocess.PIPE,
                              timeout=TIMEOUT_S, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr == "belfry next: cannot write the output: No space left on device\n"


def test_a_full_disk_ends_a_long_answer_at_once(build):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([build / "belfry", "next", "* * * * * *", "--to", "2200-01-01T00:00:00Z"], stdout=full,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and b"No space left on device" in done.stderr


def test_a_closed_stdout_is_a_failure_too(build):
    done = subprocess.run(["bash", "-c", '"$0" next "0 8 * * *" >&-', build / "belfry"], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (1, "belfry next: cannot write the output: Bad file descriptor\n")


def peak_kib(build, *args, tty=False):
    """The most memory a run ever held, and its number of lines."""
    chunks = []
    source, sink = pty.openpty() if tty else os.pipe()
    reader = threading.Thread(target=read_terminal, args=(source, chunks))
    reader.start()
    process = subprocess.Popen([build / "belfry", "next", *args], stdout=sink, stderr=subprocess.DEVNULL, env={
        **os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    os.close(sink)
    reader.join()
    os.close(source)
    assert process.returncode == 0
    return usage.ru_maxrss, sum(chunk.count(b"\n") for chunk in chunks)


@pytest.mark.parametrize("tty, flags", [(False, ()), (False, ("--json",)), (True, ())], ids=["lines", "json", "table"])
def test_a_long_answer_streams_in_bounded_memory(build, tty, flags):
    ask = lambda until: peak_kib(build, "* * * * * *", "--from", MARCH, "--to", until, *flags, tty=tty)
    some_kib, some = ask("2026-03-28T04:00:00Z")  # 14,400 lines
    many_kib, many = ask("2026-03-29T04:00:00Z")  # 100,800 lines
    head = 3 if tty else 0  # the sentence, a blank, the header
    assert (some, many) == (14_400 + head, 100_800 + head)
    assert many_kib < some_kib + 4096, f"{some_kib} KiB for {some} lines, {many_kib} KiB for {many}"


@pytest.mark.parametrize("zone, meant", [
    ("Europe/Belin", "Europe/Berlin"), ("berlin", "Europe/Berlin"), ("Germany/Berlin", "Europe/Berlin"), ("new_york", "America/New_York"),
    ("Ameria/New_York", "America/New_York"), ("utc", "UTC"),
    ("Europe/Germany", None), ("US/Californa", None), ("PST", None), ("Europe/Paradise", None), ("Moon", None),
])
def test_an_unknown_zone_suggests_the_one_that_was_meant_or_none(belfry, zone, meant):
    done = belfry("next", "@daily", "--tz", zone)
    assert done.code == 2
    assert done.err.endswith(f"; did you mean {meant}?\n" if meant else "; use one such as Europe/Berlin or UTC\n"), done


def test_a_range_takes_dates_too(belfry, fires):
    daily = ("30 2 * * *", *BERLIN)
    assert fires(*daily, "--from", "2026-03-28", "--to", "2026-03-31") == fires(*daily, "--from", MARCH, "--to", "2026-03-31T00:00:00Z")
    assert len(fires(*daily, "--from", "2026-03-28", "--to", "2026-03-31")) == 3
    for wrong in ("2026-02-30", "tomorrow"):
        done = belfry("next", *daily, "--from", wrong)
        assert done.code == 2 and "--from" in done.err, done
