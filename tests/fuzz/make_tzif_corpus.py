#!/usr/bin/env python3
"""Writes corpus/tzif: small TZif files of our own making, one for each thing a reader can meet. Run it after a change here;
its files are kept in the repository beside those that the fuzzer found."""

import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus" / "tzif"
LMT, STD, DST = (-600, 0, 0), (3600, 0, 4), (7200, 1, 8)
CHARS = b"LMT\0CET\0CEST\0"


def block(version, times, indexes, types, chars, size, leaps=0, marks=0):
    head = b"TZif" + version + bytes(15) + struct.pack(">6I", marks, marks, leaps, len(times), len(types), len(chars))
    return (head + b"".join(struct.pack(">q" if size == 8 else ">i", t) for t in times) + bytes(indexes)
            + b"".join(struct.pack(">iBB", *t) for t in types) + chars + bytes(leaps * (size + 4)) + bytes(2 * marks))


def tzif(version=b"2", times=(), indexes=(), types=(LMT, STD, DST), chars=CHARS, footer=b"", **more):
    if version == b"\0":
        return block(version, times, indexes, types, chars, 4, **more)
    return (block(version, (), (), ((0, 0, 0),), b"\0", 4) + block(version, times, indexes, types, chars, 8, **more)
            + b"\n" + footer + b"\n")


FILES = {
    "v1": tzif(b"\0", (-1000, 1000), (1, 2)),
    "v1_no_transition": tzif(b"\0"),
    "v2_north": tzif(times=(0, 10**9), indexes=(1, 2), footer=b"CET-1CEST,M3.5.0,M10.5.0/3"),
    "v2_south": tzif(footer=b"<-04>4<-03>,M9.1.6/24,M4.1.6/24"),
    "v2_negative_dst": tzif(footer=b"IST-1GMT0,M10.5.0,M3.5.0/1"),
    "v2_fixed": tzif(footer=b"<+0545>-5:45"),
    "v2_julian": tzif(footer=b"AAA0BBB,J60,J300/0:30:15"),
    "v2_zero_based": tzif(footer=b"AAA0BBB,59/1,365/2"),
    "v2_no_rule": tzif(times=(5,), indexes=(2,)),
    "v2_marks": tzif(times=(5,), indexes=(2,), marks=3, footer=b"CET-1"),
    "v3_long_hours": tzif(b"3", footer=b"EET-2EEST,M3.4.4/50,M10.4.4/-50"),
    "v3_all_year": tzif(b"3", footer=b"XXX3EDT4,0/0,J365/23"),
    "v4": tzif(b"4", times=(-2**59, 0), indexes=(1, 2), footer=b"<+02>-2"),
    "v9": tzif(b"9", footer=b"<+02>-2"),
    "short_spans": tzif(times=range(0, 4000, 100), indexes=[i % 3 for i in range(40)]),
    "skipped_day": tzif(times=(0,), indexes=(1,), types=((-36000, 0, 0), (50400, 0, 4)), footer=b"CET-14"),
    "far_offsets": tzif(times=(0, 1), indexes=(1, 0), types=((93599, 0, 0), (-93599, 0, 4))),
    "leap_seconds": tzif(leaps=2),
    "late_transition": tzif(times=(2**59,), indexes=(1,), footer=b"CET-1CEST,M3.5.0,M10.5.0/3"),
    "rule_ends_early": tzif(b"3", times=(16725225600,), indexes=(1,), footer=b"CET0CEST-0,M12.5.5/24,M12.5.5/48"),
    "rule_over_new_year": tzif(b"3", footer=b"AAA0BBB,J365/167,0/-167"),
    "bad_index": tzif(times=(0,), indexes=(7,)),
    "bad_rule": tzif(footer=b"CET-1CEST"),
    "cut": tzif(times=(0, 10), indexes=(1, 2))[:-30],
}

FOLDER.mkdir(parents=True, exist_ok=True)
for name, data in FILES.items():
    (FOLDER / name).write_bytes(data)
