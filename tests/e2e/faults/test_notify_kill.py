"""kill -9 around each step of a notification: no incident is untold, and a kill repeats only the messages that were under way, under the same id.
4 kills of a standalone server and 2 of a cluster in ./test, 100 on each topology in ./test long."""

import os

import pytest

from conftest import FLEETS
from notify_chaos import FAILPOINTS, PLANS, SETTING, UNDER_WAY, Failures, NodeKills, judge
from server import until

LONG = bool(os.environ.get("BELFRY_TEST_LONG"))
DRAINED_S = 240 if LONG else 60


def kills_wanted(topology):
    return 100 if LONG else len(FAILPOINTS) if topology == "standalone" else 2


@pytest.mark.cluster(when="always")
def test_kills_leave_no_incident_untold(request, make_server, topology, receiver, counts):
    system = make_server(**({"workers": 1} if topology in FLEETS else {}))
    client = system.client()
    assert client.post("/v1/notification-settings", {**SETTING, "delivery_config": {"url": receiver.url("/told")}}).status == 201
    quick = not LONG and topology != "standalone"  # there a message that was taken is sent again after 20 s
    kills = NodeKills(system, kills_wanted(topology), PLANS[:1] if quick else PLANS)
    failures = Failures(client, receiver, kills)
    request.addfinalizer(failures.close)
    kills.arm_all()
    while kills.count < kills.wanted:
        failures.burst()
    kills.end()
    until(failures.are_told, DRAINED_S, why=lambda: (failures.tasks, failures.messages(), system.log()[-6000:]))
    until(lambda: all(n["state"] == "SENT" for n in client.all("/v1/notifications", "notifications")), DRAINED_S,
          why=lambda: [n for n in client.all("/v1/notifications", "notifications") if n["state"] != "SENT"])
    wrong, repeats = judge(failures.tasks, failures.messages(), kills.count)
    counts(f"notifications, {topology}: {kills.count} kills ({dict(kills.done)}), {len(failures.tasks)} incidents, {repeats} repeats, "
           f"{len(wrong)} wrong")
    assert not wrong, "\n".join([*wrong[:20], system.log()[-6000:]])


PLANTED = {
    "untold": (["a", "b"], [("m1", "i1", ["a"])]),
    "not asked for": (["a"], [("m1", "i1", ["a"]), ("m2", "i2", ["b"])]),
    "two incidents": (["a"], [("m1", "i1", ["a"]), ("m2", "i2", ["a"])]),
    "repeated under another id": (["a"], [("m1", "i1", ["a"]), ("m2", "i1", ["a"])]),
    "too many repeats": (["a"], [("m1", "i1", ["a"])] * (UNDER_WAY + 2)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_judge_catches(name):
    assert judge(*PLANTED[name], kills=1)[0]


def test_the_judge_accepts_repeats_of_kills():
    assert judge(["a"], [("m1", "i1", ["a"])] * 2, kills=1) == ([], 1)
