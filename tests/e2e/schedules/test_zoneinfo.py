"""Belfry and Python's zoneinfo agree on every time zone of this system, at and around every transition from 1970 to 2045, and in ./test long
to 2100.

Both read the same TZif files and share no code. Python does not tell its transitions, so they are found from outside: a
walk in steps of STEP, then bisection wherever two samples differ. Belfry's own transitions must be the same ones. Zones
that are the same file under another name are worked out once in Python and asked of Belfry each.
"""

import bisect
import datetime
import pathlib
import subprocess
import zoneinfo

from cluster import LONG
from conftest import BUILD

EPOCH = datetime.datetime(1970, 1, 1)
UTC = datetime.timezone.utc
DAY = 86400
STEP = 5 * DAY  # shorter than any span of these years
FROM = 0
UNTIL = int(datetime.datetime(2100 if LONG else 2045, 1, 1, tzinfo=UTC).timestamp())
NO_PLACES = {"Factory", "localtime", "posixrules"}  # Belfry refuses them: they are another zone on another machine
NEAR = sorted({sign * s for s in (0, 1, 1800, 3600, DAY) for sign in (-1, 1)})


def clock_at(zone, instant):
    """(offset, abbreviation, daylight) as Python has it. Python guesses how long daylight time is, not whether it is on:
    dst() is zero only where a file marks no daylight time, so its truth is comparable and its amount is not."""
    local = datetime.datetime.fromtimestamp(instant, zone)
    return local.utcoffset() // datetime.timedelta(seconds=1), local.tzname(), bool(local.dst())


def find_edge(zone, low, high):
    """The first instant in (low, high] whose clock differs from that at low."""
    before = clock_at(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if clock_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def transitions(zone):
    """[(instant, clock from there on)], the first one at FROM."""
    found = [(FROM, clock_at(zone, FROM))]
    at = FROM
    while at < UNTIL:
        target = min(at + STEP, UNTIL)
        clock = clock_at(zone, target)
        while clock != found[-1][1]:
            edge = find_edge(zone, at, target)
            found.append((edge, clock_at(zone, edge)))
            at = edge
        at = target
    return [t for t in found if t[0] < UNTIL]


def gap_end(zone, edges, local):
    """The transition that jumped over this local time."""
    near = bisect.bisect_left(edges, local - 2 * DAY)
    for edge in edges[near:]:
        before, after = clock_at(zone, edge - 1)[0], clock_at(zone, edge)[0]
        if edge + before <= local < edge + after:
            return edge
    raise AssertionError(f"{zone}: no transition jumps over {EPOCH + datetime.timedelta(seconds=local)}")


def instants_of(zone, edges, local):
    """The answer to tzdump's "local", from Python's fold=0 and fold=1."""
    wall = (EPOCH + datetime.timedelta(seconds=local)).replace(tzinfo=zone)
    offsets = [wall.replace(fold=fold).utcoffset() // datetime.timedelta(seconds=1) for fold in (0, 1)]
    real = sorted({local - offset for offset in offsets if clock_at(zone, local - offset)[0] == offset})
    if not real:
        edge = gap_end(zone, edges, local)
        return f"gap {edge} {edge}"
    kind = "unique" if len(real) == 1 else "repeat"
    return f"{kind} {real[0]} {real[-1]}"


class Expected:
    """All questions about one zone and Python's answers."""

    def __init__(self, zone):
        self.spans = transitions(zone)
        edges = [t[0] for t in self.spans[1:]]
        instants = sorted({edge + d for edge in edges for d in NEAR} | {FROM, UNTIL - 1})
        self.clocks = [(t, clock_at(zone, t)) for t in instants]
        walls = sorted({t + off for edge in edges for t in (edge + d for d in NEAR)
                        for off in (clock_at(zone, edge - 1)[0], clock_at(zone, edge)[0])})
        self.locals = [(wall, instants_of(zone, edges, wall)) for wall in walls]

    def questions(self):
        yield f"spans {FROM} {UNTIL}"
        yield from (f"at {t}" for t, _ in self.clocks)
        yield from (f"local {wall}" for wall, _ in self.locals)


def tzdump(lines):
    """Belfry's answers, one process for all."""
    done = subprocess.run([BUILD / "tests/support/tzdump"], input="\n".join(lines) + "\n", capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def expected_by_name():
    by_file, by_name = {}, {}
    for name in sorted(zoneinfo.available_timezones() - NO_PLACES):
        zone = zoneinfo.ZoneInfo(name)
        data = next((path.read_bytes() for folder in zoneinfo.TZPATH
                     if (path := pathlib.Path(folder) / name).is_file()), name.encode())
        if data not in by_file:
            by_file[data] = Expected(zone)
        by_name[name] = by_file[data]
    return by_name


def parse_clock(line):
    offset, daylight, abbreviation = line.split(" ")
    return int(offset), abbreviation, daylight == "1"


def compare(name, expected, answers):
    """What differs for one zone, as lines for a person. Takes its answers off the iterator."""
    wrong = []
    spans = []
    while (line := next(answers)) != "end":
        at, clock = line.split(" ", 1)
        spans.append((int(at), parse_clock(clock)))
    if spans != expected.spans:
        wrong.append(f"{name}: spans {sorted(set(spans) ^ set(expected.spans))[:4]}")
    for t, clock in expected.clocks:
        if (got := parse_clock(next(answers))) != clock:
            wrong.append(f"{name}: at {t} is {got}, not {clock}")
    for wall, instants in expected.locals:
        if (got := next(answers)) != instants:
            wrong.append(f"{name}: local {wall} is {got}, not {instants}")
    return wrong


def test_every_zone_agrees_with_python():
    expected = expected_by_name()
    assert len(expected) > 400, "this system's tzdata is not complete"
    questions = [line for name, e in expected.items() for line in (f"zone {name}", *e.questions())]
    answers = iter(tzdump(questions))
    wrong = [line for name, e in expected.items() for line in compare(name, e, answers)]
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])
    assert next(answers, None) is None
    print(f"{len(expected)} zones, {len(questions)} questions")
