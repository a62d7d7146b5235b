"""`belfry next` against a second implementation that shares nothing with it but the requirements.

The oracle below has its own parser of the whole grammar (but H, whose values are Belfry's own choice) and asks Python's zoneinfo
what the clock shows. It does not search: it walks a window minute by minute, or second by second, and asks the definitions
for daylight saving time at each step; sparse dates are walked day by day over years. Random questions lean to where answers are least
obvious: around changes of the clock, at the ends of months and years.

A failure prints its seed; BELFRY_SEED=seed repeats it.
"""

import calendar
import datetime
import functools
import os
import random
import subprocess
import zoneinfo

import pytest

from conftest import TIMEOUT_S

UTC = datetime.timezone.utc
MINUTE, HOUR, DAY = 60, 3600, 86400

# ---- the grammar ----

MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
LONG_MONTHS = [name.upper() for name in calendar.month_name[1:]]
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()
LONG_WEEKDAYS = "SUNDAY MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY".split()
RANGES = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
MACROS = {"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
          "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}


def number(field, word):
    names = {"month": (1, MONTHS, LONG_MONTHS), "weekday": (0, WEEKDAYS, LONG_WEEKDAYS)}.get(field)
    if names and word[0].isalpha():
        first, short, long = names
        return first + (short if word in short else long).index(word)
    return int(word)


def values(field, item):
    """The values of one list member that is a plain span: *, a, a-b, each with /n."""
    low, high = RANGES[field]
    base, _, step = item.partition("/")
    if base in "*?":
        start, end = low, 6 if field == "weekday" else high
    elif "-" in base:
        start, end = (number(field, word) for word in base.split("-"))
        if field == "weekday" and end == 0 and start > 0:
            end = 7  # FRI-SUN
    else:
        start = number(field, base)
        end = start
        if step:
            start, end = (start % 7, 6) if field == "weekday" else (start, high)
    return set(range(start, end + 1, int(step or 1)))


def day_length(year, month):
    return calendar.monthrange(year, month)[1]


def weekday(date):
    return date.isoweekday() % 7


def workday_nearest(date):
    """Monday to Friday next to it, within its month."""
    for step in (0, -1, 1, -2, 2):
        other = date + datetime.timedelta(step)
        if other.month == date.month and weekday(other) not in (0, 6):
            return other
    raise AssertionError(date)


def day_item(item, date):
    """Whether one member of the day-of-month field names this date."""
    length = day_length(date.year, date.month)
    last = date.replace(day=length)
    if item == "LW":
        while weekday(last) in (0, 6):
            last -= datetime.timedelta(1)
        return date == last
    if item.startswith("L"):
        return date.day == length - int(item[2:] or 0)
    if item.endswith("W"):
        wanted = int(item[:-1])
        return wanted <= length and date == workday_nearest(date.replace(day=wanted))
    return date.day in values("day", item)


def weekday_item(item, date):
    if "#" in item:
        name, nth = item.split("#")
        return weekday(date) == number("weekday", name) % 7 and (date.day - 1) // 7 + 1 == int(nth)
    if item.endswith("L"):
        return weekday(date) == number("weekday", item[:-1]) % 7 and date.day + 7 > day_length(date.year, date.month)
    return weekday(date) in {v % 7 for v in values("weekday", item)}


class Cron:
    def __init__(self, text):
        text = MACROS.get(text.lower(), text).upper()
        fields = text.split()
        if len(fields) == 5:
            fields.insert(0, "0")
        self.fields = dict(zip(RANGES, fields))
        spans = lambda field: set().union(*(values(field, item) for item in self.fields[field].split(",")))
        self.seconds, self.minutes, self.hours, self.months = map(spans, ("second", "minute", "hour", "month"))
        self.follows_clock = any(c in self.fields[f] for f in ("second", "minute", "hour") for c in "*-/")

    @functools.lru_cache(maxsize=None)
    def matches_date(self, date):
        if date.month not in self.months:
            return False
        days, weekdays = self.fields["day"], self.fields["weekday"]
        by_day = any(day_item(item, date) for item in days.split(","))
        by_weekday = any(weekday_item(item, date) for item in weekdays.split(","))
        if days[0] in "*?" or weekdays[0] in "*?":
            return by_day and by_weekday
        return by_day or by_weekday

    def matches(self, local):
        return (local.minute in self.minutes and local.hour in self.hours and local.second in self.seconds
                and self.matches_date(local.date()))


# ---- the time line ----


class Question:
    def __init__(self, text, zone, start, end, gap=None, repeat=None):
        self.text, self.zone_name, self.start, self.end, self.gap, self.repeat = text, zone, start, end, gap, repeat
        self.zone, self.cron = zoneinfo.ZoneInfo(zone), Cron(text)
        follows = self.cron.follows_clock
        self.shifts = (gap or ("skip" if follows else "shift")) == "shift"
        self.copies = repeat or ("both" if follows else "first")

    def arguments(self):
        yield from ("next", "--json", "--tz", self.zone_name, "--from", instant_text(self.start), "--to",
                    instant_text(self.end))
        if self.gap:
            yield from ("--dst-gap", self.gap)
        if self.repeat:
            yield from ("--dst-overlap", self.repeat)
        yield from ("--", self.text)

    def clock(self, instant):
        return datetime.datetime.fromtimestamp(instant, self.zone)

    def copy_of(self, local):
        """None, "first" or "last": which of two instants with the same local time this is."""
        if local.fold:
            return "last"
        return "first" if local.replace(fold=1).utcoffset() != local.utcoffset() else None

    def fire_at(self, local):
        """The note's kind if an instant that exists, shown as local, fires by itself; else None."""
        if not self.cron.matches(local):
            return None
        copy = self.copy_of(local)
        if copy and self.copies not in ("both", copy):
            return None
        return copy or "plain"

    def walk(self, step):
        """[(instant, kind)], from the definitions: each instant of the window by itself."""
        found = []
        before = self.clock(self.start - step).replace(tzinfo=None)
        for instant in range(self.start, self.end, step):
            local = self.clock(instant)
            naive = local.replace(tzinfo=None)
            kind = None
            if self.shifts:  # what the clock jumped over between the step before and this one
                jumped = before + datetime.timedelta(seconds=step)
                while jumped < naive and not kind:
                    kind = "shifted" if self.cron.matches(jumped) else None
                    jumped += datetime.timedelta(seconds=step)
            kind = kind or self.fire_at(local)
            if kind:
                found.append((instant, kind))
            before = naive
        return found

    def gap_end(self, naive):
        """The instant at which the clock jumped over this local time."""
        low, high = (int(naive.replace(tzinfo=self.zone, fold=fold).timestamp()) for fold in (1, 0))
        after = self.clock(high).utcoffset()
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.clock(middle).utcoffset() == after else (middle, high)
        return high

    def walk_days(self):
        """The same for expressions with few times a day, over years: each date by itself, then its times."""
        found = {}
        date = self.clock(self.start).date() - datetime.timedelta(2)
        last = self.clock(self.end).date() + datetime.timedelta(2)
        times = [datetime.time(h, m, s) for h in sorted(self.cron.hours) for m in sorted(self.cron.minutes)
                 for s in sorted(self.cron.seconds)]
        while date <= last:
            for time in times if self.cron.matches_date(date) else ():
                naive = datetime.datetime.combine(date, time)
                instants = {int(naive.replace(tzinfo=self.zone, fold=fold).timestamp()) for fold in (0, 1)}
                real = [t for t in instants if self.clock(t).replace(tzinfo=None) == naive]
                if not real and self.shifts:
                    found[self.gap_end(naive)] = "shifted"
                for t in real:
                    if kind := self.fire_at(self.clock(t)):
                        found.setdefault(t, kind)
            date += datetime.timedelta(1)
        return sorted((t, kind) for t, kind in found.items() if self.start <= t < self.end)

    def line(self, instant, kind):
        """What Belfry must print, but for the sentence of a shift, whose time is that of the first jumped over."""
        local = self.clock(instant)
        offset = local.utcoffset() // datetime.timedelta(minutes=1)
        sign, offset = ("-", -offset) if offset < 0 else ("+", offset)
        words = {"plain": "null", "shifted": "does not exist that day; fires when the clock has been set forward",
                 "first": "this is the first", "last": "this is the second"}
        return instant_text(instant), f"{local:%Y-%m-%dT%H:%M:%S}.000{sign}{offset // 60:02}:{offset % 60:02}", words[kind]


def instant_text(instant):
    return datetime.datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def compare(build, question, expected):
    """None, or how Belfry's answer differs."""
    done = subprocess.run([build / "belfry", *question.arguments()], capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False)
    asked = " ".join(question.arguments())
    if done.returncode == 2 and done.stderr.startswith("belfry next: day of month: ") and never_comes(question.cron):
        return None  # refused, and rightly so
    if done.returncode != 0:
        return f"{asked}: exit {done.returncode}: {done.stderr}"
    lines = done.stdout.splitlines()
    wanted = [question.line(*fire) for fire in expected]
    for line, (at, local, note) in zip(lines, wanted):
        if not (f'"at":"{at}"' in line and f'"local":"{local}"' in line and note in line):
            return f"{asked}\n    belfry: {line}\n    oracle: {at} {local} {note}"
    if len(lines) != len(wanted):
        extra = lines[len(wanted):] or wanted[len(lines):]
        return f"{asked}: {len(lines)} fires, the oracle has {len(wanted)}; next would be {extra[0]}"
    return None


# ---- random questions ----

ZONES = """Europe/Berlin America/New_York Australia/Lord_Howe Africa/Cairo America/Santiago Pacific/Chatham
Antarctica/Troll Pacific/Apia Africa/Casablanca Asia/Kathmandu Europe/Dublin America/Sao_Paulo Asia/Gaza America/St_Johns
Asia/Tehran Pacific/Kwajalein America/Havana Asia/Pyongyang Europe/London Atlantic/Azores Asia/Beirut America/Asuncion
America/Godthab UTC""".split()
FIRST = int(datetime.datetime(1972, 2, 1, tzinfo=UTC).timestamp())  # Monrovia's 44:30 is over; offsets are whole minutes
LAST = int(datetime.datetime(2199, 6, 1, tzinfo=UTC).timestamp())
NEAR = int(datetime.datetime(2038, 1, 1, tzinfo=UTC).timestamp())


class Asker:
    """Makes questions from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def change(self, zone):
        """A change of the clock after a random instant; the instant itself where none is near."""
        at = self.random.randrange(FIRST, self.random.choice((NEAR, NEAR, LAST))) // DAY * DAY
        offset = lambda t: datetime.datetime.fromtimestamp(t, zone).utcoffset()
        for low in range(at, at + 400 * DAY, 10 * DAY):
            high = low + 10 * DAY
            if offset(low) == offset(high):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(low) == offset(middle) else (low, middle)
            return high
        return at

    def edge(self):
        """Midnight in UTC near the end of a month or a year, leap years' February more than its share."""
        r = self.random
        year = r.choice((1972, 1999, 2000, 2024, 2026, 2027, 2028, 2096, 2100, 2199, r.randrange(1973, 2199)))
        month = r.choice((1, 3, 3, r.randrange(1, 13)))
        return int(datetime.datetime(year, month, 1, tzinfo=UTC).timestamp())

    def span(self, low, high):
        r = self.random
        a = r.randint(low, high)
        b = r.randint(a, high)
        kind = r.randrange(8)
        if kind == 0:
            return f"{a}-{b}"
        if kind == 1:
            return f"{a}-{b}/{r.randint(1, max(1, min(high, 20)))}"
        if kind == 2:
            return f"{a}/{r.randint(1, min(high, 30))}"
        return str(a)

    def field(self, low, high):
        r = self.random
        kind = r.randrange(8)
        if kind == 0:
            return "*"
        if kind == 1:
            return f"*/{r.randint(1, min(high, 40))}"
        if kind < 5:
            return ",".join(str(r.randint(low, high)) for _ in range(r.choice((1, 1, 1, 2, 3))))
        return ",".join(self.span(low, high) for _ in range(r.choice((1, 1, 1, 2, 3))))

    def day(self):
        r = self.random
        special = lambda: r.choice(("L", f"L-{r.randint(1, 30)}", "LW", f"{r.randint(1, 31)}W", str(r.randint(1, 31)),
                                    f"{r.randint(1, 15)}-{r.randint(15, 31)}", self.span(1, 31)))
        return r.choice(("*", "*", "?", f"*/{r.randint(1, 31)}", special(), special(), f"{special()},{special()}"))

    def weekday(self):
        r = self.random
        name = lambda: r.choice((*WEEKDAYS, *LONG_WEEKDAYS, *"01234567", *(n.lower() for n in WEEKDAYS)))
        start = r.randrange(1, 6)
        special = lambda: r.choice((name(), f"{name()}#{r.randint(1, 5)}", f"{name()}L", f"{WEEKDAYS[start]}-SUN",
                                    f"{start}-{r.randint(start, 7)}", f"{WEEKDAYS[start]}-{start + 1}", f"{start}-7/2",
                                    f"{name()}/{r.randint(1, 7)}", "MON-FRI", "Sat,sunday"))
        return r.choice(("*", "*", "*", "?", f"*/{r.randint(1, 7)}", special(), special(), f"{special()},{special()}"))

    def month(self):
        r = self.random
        start = r.randrange(0, 11)
        return r.choice(("*", "*", "*", "*", f"*/{r.randint(1, 12)}", f"{MONTHS[start]}-{MONTHS[r.randint(start, 11)]}",
                         "mar,October", f"{r.randint(1, 12)}/{r.randint(1, 12)}"))

    def hour(self, hint):
        """Mostly the hour that is about to be jumped over or to come twice."""
        after = (hint + 1) % 24
        return self.random.choice((str(hint), str(hint), str(after), f"{hint},{after}", f"{hint // 2}-{hint}",
                                   self.field(0, 23), "*"))

    def expression(self, with_seconds, hint):
        r = self.random
        if r.randrange(25) == 0 and not with_seconds:
            return r.choice(sorted(MACROS))
        fields = [self.field(0, 59)] if with_seconds else []
        minute = r.choice(("0", self.field(0, 59), self.field(0, 59)))
        days = (self.day(), self.month(), self.weekday()) if r.randrange(3) else ("*", "*", "*")
        return r.choice((" ", " ", "\t  ")).join((*fields, minute, self.hour(hint), *days))

    def sparse(self):
        r = self.random
        days = r.choice((f"29 2 {r.choice('*?')}", f"{self.day()} {r.randint(1, 12)} *", f"L {self.month()} *",
                         f"{r.randint(1, 31)}W {self.month()} ?", f"? {self.month()} {r.choice(WEEKDAYS)}#5",
                         f"{r.randint(28, 31)} * {r.choice(WEEKDAYS)}L", "LW * *", "13 * FRI", "*/13 * FRI",
                         f"L-{r.randint(20, 30)} 2,4 *", f"{self.day()} {self.month()} {self.weekday()}", "? 3,4,9-11 SUN", "? 3,4,9-11 SUN"))
        return f"{r.randint(0, 59)} {r.choice((r.randint(0, 3), r.randint(0, 23)))} {days}"

    def policy(self):
        r = self.random
        return r.choice((None, None, "shift", "skip")), r.choice((None, None, "first", "last", "both"))

    def moment(self):
        """A zone, an instant there that is worth a look, and the hour its clock would show had it not changed."""
        zone = self.random.choice(ZONES)
        middle = self.change(zoneinfo.ZoneInfo(zone)) if self.random.randrange(5) else self.edge()
        before = datetime.datetime.fromtimestamp(middle - 1, zoneinfo.ZoneInfo(zone))
        after = datetime.datetime.fromtimestamp(middle, zoneinfo.ZoneInfo(zone))
        jumped = (before.replace(tzinfo=None) + datetime.timedelta(seconds=1)).hour
        return zone, middle, jumped if after.utcoffset() > before.utcoffset() else after.hour

    def minutes(self):
        zone, middle, hint = self.moment()
        start = (middle - self.random.randrange(36 * HOUR)) // MINUTE * MINUTE
        end = start + self.random.randrange(1, 4 * DAY) // MINUTE * MINUTE
        return Question(self.expression(False, hint), zone, start, end, *self.policy())

    def seconds(self):
        zone, middle, hint = self.moment()
        start = middle - self.random.randrange(2 * HOUR)
        end = middle + self.random.randrange(1, 2 * HOUR)
        return Question(self.expression(True, hint), zone, start, end, *self.policy())

    def years(self):
        start = self.random.randrange(FIRST, LAST - 10000 * DAY)
        return Question(self.sparse(), self.random.choice(ZONES), start, start + self.random.randrange(300, 3000) * DAY,
                        *self.policy())


def never_comes(cron):
    """Whether no date matches: after 28 years the calendar repeats."""
    first = datetime.date(2001, 1, 1)
    return not any(cron.matches_date(first + datetime.timedelta(day)) for day in range(28 * 366))


def run_rounds(build, name, rounds, make, answer):
    """Ask so many questions, and more of them while none has an answer: agreeing about nothing shows nothing."""
    seed = os.environ.get("BELFRY_SEED") or str(random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}")
    asker = Asker(f"{seed} {name}")
    wrong, asked, fires, shown = [], 0, 0, {}
    while asked < rounds or (fires == 0 and asked < 20 * rounds):
        question = make(asker)
        expected = answer(question)
        asked += 1
        fires += len(expected)
        for _, kind in expected:
            shown[kind] = shown.get(kind, 0) + 1
        if difference := compare(build, question, expected):
            wrong.append(difference)
    assert not wrong, f"BELFRY_SEED={seed}: {len(wrong)} of {asked} differ:\n" + "\n".join(wrong[:10])
    print(f"{asked} questions, {fires} fires agree: {shown}")
    assert fires > 0, "questions without answers show nothing"


PARTS = range(4)  # so that some can run at a time
MORE = 20 if os.environ.get("BELFRY_TEST_LONG") else 1  # the questions are others in each run


@pytest.mark.parametrize("part", PARTS)
def test_minute_by_minute(build, part):
    run_rounds(build, f"minutes {part}", 20 * MORE, Asker.minutes, lambda q: q.walk(MINUTE))


@pytest.mark.parametrize("part", PARTS)
def test_second_by_second(build, part):
    run_rounds(build, f"seconds {part}", 5 * MORE, Asker.seconds, lambda q: q.walk(1))


@pytest.mark.parametrize("part", PARTS)
def test_day_by_day_over_years(build, part):
    run_rounds(build, f"years {part}", 5 * MORE, Asker.years, Question.walk_days)


# ---- the oracle itself ----


def test_the_oracle_knows_what_is_written_down():
    """Two implementations may err alike; these answers were worked out by hand."""
    at = lambda text: int(datetime.datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    ask = lambda text, zone, start, end, *policy: [
        instant_text(t)[5:16] for t, _ in Question(text, zone, at(start), at(end), *policy).walk(MINUTE)]
    spring = ("Europe/Berlin", "2026-03-28", "2026-03-30")
    autumn = ("Europe/Berlin", "2026-10-25", "2026-10-26")
    assert ask("30 2 * * *", *spring) == ["03-28T01:30", "03-29T01:00"]
    assert ask("30 2 * * *", *spring, "skip") == ["03-28T01:30"]
    assert ask("*/30 2 * * *", *spring) == ["03-28T01:00", "03-28T01:30"]
    assert ask("30 2 * * *", *autumn) == ["10-25T00:30"]
    assert ask("30 2 * * *", *autumn, None, "last") == ["10-25T01:30"]
    assert ask("*/30 2 * * *", *autumn) == ["10-25T00:00", "10-25T00:30", "10-25T01:00", "10-25T01:30"]
    assert ask("0 8 30 12 *", "Pacific/Apia", "2011-12-29", "2012-01-01") == ["12-30T10:00"]  # the day that was not
    assert ask("0 9 31W 5 *", "UTC", "2026-05-01", "2026-06-03") == ["05-29T09:00"]
    assert ask("0 9 1W 8 *", "UTC", "2026-07-30", "2026-08-05") == ["08-03T09:00"]
    assert ask("0 9 13 * FRI", "UTC", "2026-03-12", "2026-03-21") == ["03-13T09:00", "03-20T09:00"]
    assert ask("0 9 */13 * FRI", "UTC", "2026-02-26", "2026-03-28") == ["02-27T09:00", "03-27T09:00"]
