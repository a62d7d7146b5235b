"""The judge is shown a sound run, then the same run with one bug planted, and must name that bug."""

import pytest

from oracle import Asked, Beat, Fault, judge, most_at_once
from server import Call, at

T0 = 1_800_000_000_000


def call(path, task_id, received_ms, fence=1, attempt=1, scheduled_ms=T0, status=200):
    headers = {"webhook-id": task_id, "belfry-task-id": task_id, "belfry-fence": str(fence), "belfry-attempt": str(attempt),
               "belfry-scheduled-at": at(scheduled_ms)}
    return Call(received_ms, "POST", path, headers, b"", status)


def sound_run():
    """Two tasks, one of which was in flight at a kill; one that was never acknowledged; a recurring one."""
    return {
        "asked": [Asked("/1", T0, "a"), Asked("/2", T0, "b"), Asked("/3", T0, None), Asked("/4", T0, "d", stopped_ms=T0 - 500)],
        "beats": [Beat("/r", "r", 1000, T0 + 2500)],
        "calls": [call("/1", "a", T0 + 2), call("/2", "b", T0 + 100), call("/2", "b", T0 + 300, fence=2),
                  *(call("/r", f"r{i}", T0 + i * 1000 + 3, scheduled_ms=T0 + i * 1000) for i in range(3))],
        "faults": [Fault("kill", T0 + 200)],
        "states": {"a": "COMPLETED", "b": "COMPLETED", "d": "CANCELLED"},
        "finals_seen": {"a": T0 + 50},
        "executions": {"b": [{"status": "COMPLETED", "fence": 2}, {"status": "LOST", "fence": 1}]},
    }


def test_a_sound_run_is_not_blamed():
    report = judge(**sound_run())
    assert report.wrong == []
    assert (report.tasks, report.acknowledged, report.calls, report.lost, report.duplicated, report.early) == (5, 4, 6, 0, 1, 0)
    assert report.occurrences == 3 and report.faults == {"kill": 1}
    assert [round(ms) for ms in sorted(report.late_ms)] == [2, 100]


def test_a_fault_that_lasts_excuses_what_was_called_while_it_did():
    run = sound_run()
    run["faults"] = [Fault("cut off", T0 - 9000, T0 + 50)]
    assert any("repeated without" in text for text in judge(**run).wrong) is False
    run["faults"] = [Fault("cut off", T0 - 9000, T0 - 8000)]
    assert any("repeated without" in text for text in judge(**run).wrong)


def test_what_a_worker_could_not_report_is_in_flight_until_events_are_back():
    away, killed = Fault("events away", T0 - 100, T0 + 20_000, excuses=False, holds=True), Fault("kill", T0 + 21_000)
    run = sound_run()
    run["calls"][2].received_ms = T0 + 25_000
    run["finals_seen"] = {}
    for faults, fine in (([away, killed], True), ([killed], False), ([away], False), ([away, Fault("kill", T0 + 25_200)], False),
                         ([Fault("events away", T0 - 9000, T0 - 100, excuses=False, holds=True), killed], False)):
        run["faults"] = faults
        assert any("repeated without" in text for text in judge(**run).wrong) is not fine, faults


def test_an_orphan_that_a_queue_kept_while_it_was_away_may_come_last():
    run = sound_run()
    run["calls"][1].received_ms = run["faults"][0].from_ms + 30_000
    report = judge(**run)
    assert not report.wrong and report.duplicated == 1, report.wrong


def lose_a_task(run):
    del run["calls"][0]


def lose_an_occurrence(run):
    del run["calls"][-2]


def lose_all_occurrences(run):
    del run["calls"][-3:]


def leave_one_unfinished(run):
    run["states"]["b"] = "RUNNING"


def forget_one(run):
    del run["states"]["b"]


def fire_early(run):
    run["calls"][0].received_ms = T0 - 0.5


def fire_an_occurrence_early(run):
    run["calls"][-1].received_ms = T0 + 1999


def repeat_without_a_fault(run):
    run["faults"].clear()


def repeat_over_a_fault_that_excuses_nothing(run):
    run["faults"][0].excuses = False


def accept_a_stale_result(run):
    run["executions"]["b"] = [{"status": "COMPLETED", "fence": 1}]


def accept_two_results(run):
    run["executions"]["b"][1]["status"] = "COMPLETED"


def repeat_long_after_the_fault(run):
    run["calls"][1].received_ms = T0 - 60000
    run["asked"][1].due_ms = T0 - 60000


def deliver_what_was_replaced_without_a_fault(run):
    run["calls"][1].received_ms = T0 + 30_000
    run["faults"].clear()


def repeat_with_the_same_fence(run):
    run["calls"][2].headers["belfry-fence"] = "1"


def repeat_after_it_was_seen_final(run):
    run["finals_seen"]["b"] = T0 + 250


def try_again_after_success(run):
    run["calls"][2].headers["belfry-attempt"] = "2"
    run["asked"][1].max_attempts = 2


def try_too_often(run):
    run["calls"][1].headers["belfry-attempt"] = "2"


def create_twice(run):
    run["calls"].append(call("/1", "another", T0 + 4))


def fire_what_nobody_asked_for(run):
    run["calls"].append(call("/9", "x", T0 + 4))


def fire_an_occurrence_under_two_ids(run):
    run["calls"].append(call("/r", "other", T0 + 5, scheduled_ms=T0))


def run_after_a_cancel(run):
    run["calls"].append(call("/4", "d", T0 + 1000))


def forget_a_cancel(run):
    run["states"]["d"] = "COMPLETED"


def fire_off_the_interval(run):
    run["calls"].append(call("/r", "odd", T0 + 505, scheduled_ms=T0 + 500))


PLANTED = {
    lose_a_task: "lost: /1",
    lose_an_occurrence: "lost occurrence: /r",
    lose_all_occurrences: "never fired: /r",
    leave_one_unfinished: "has no final state: /2",
    forget_one: "has no final state: /2",
    fire_early: "early by 0.500 ms: /1",
    fire_an_occurrence_early: "early by 1.000 ms: /r",
    repeat_without_a_fault: "repeated without a fault",
    repeat_over_a_fault_that_excuses_nothing: "repeated without a fault",
    repeat_long_after_the_fault: "repeated without a fault",
    accept_a_stale_result: "a stale result was accepted: /2",
    accept_two_results: "more than one result was accepted: /2",
    deliver_what_was_replaced_without_a_fault: "repeated without a fault",
    repeat_with_the_same_fence: "fence did not rise",
    repeat_after_it_was_seen_final: "ran after it was seen final",
    try_again_after_success: "tried again after a success",
    try_too_often: "too many attempts",
    create_twice: "more than one task for one idempotency key",
    fire_what_nobody_asked_for: "nobody asked for this: /9",
    fire_an_occurrence_under_two_ids: "an occurrence with two ids",
    fire_off_the_interval: "fired off its interval",
    run_after_a_cancel: "ran after an acknowledged cancel: /4",
    forget_a_cancel: "was cancelled and is COMPLETED: /4",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda f: f.__name__)
def test_a_planted_bug_is_caught(plant):
    run = sound_run()
    plant(run)
    report = judge(**run)
    assert any(text.startswith(PLANTED[plant]) for text in report.wrong), report.wrong


# ---- how many at once ----


def lasting(task_id, from_ms, to_ms, fence=1):
    made = call("/k", task_id, T0 + from_ms, fence)
    made.answered_ms = T0 + to_ms
    return made


def test_calls_one_after_the_other_are_not_beside_each_other():
    assert most_at_once([]) == 0
    assert most_at_once([lasting("a", 0, 10), lasting("b", 10, 20), lasting("c", 21, 30)]) == 1


def test_calls_beside_each_other_are_counted():
    calls = [lasting("a", 0, 10), lasting("b", 9, 20), lasting("c", 5, 7), lasting("d", 19, 30)]
    assert most_at_once(calls) == 2
    assert most_at_once([*calls, lasting("e", 6, 7)]) == 3


def test_an_orphan_ends_with_the_fault_and_nothing_else_does():
    orphan, repeat, other = lasting("a", 0, 100), lasting("a", 60, 70, fence=2), lasting("b", 71, 80)
    assert most_at_once([orphan, repeat, other], [T0 + 50]) == 1
    assert most_at_once([orphan, repeat, other], [T0 + 50, T0 + 90]) == 1, "the first fault is its end"
    assert most_at_once([orphan, repeat, other], [T0 - 50]) == 1, "written down late"
    assert most_at_once([orphan, repeat, other]) == 2, "no fault, no orphan"
    assert most_at_once([orphan, lasting("c", 60, 70)], [T0 - 50]) == 2, "not repeated: it came after the fault"
    orphan.arrived_ms = T0 - 60
    assert most_at_once([orphan, lasting("c", 60, 70)], [T0 - 50]) == 1, "not repeated, but it came before the fault"
    orphan.arrived_ms = T0 - 40
    assert most_at_once([orphan, lasting("c", 60, 70)], [T0 - 50]) == 2


def test_where_only_one_of_several_callers_died_only_what_is_repeated_is_an_orphan():
    orphan, repeat, alive = lasting("a", 0, 100), lasting("a", 60, 70, fence=2), lasting("b", 0, 100)
    assert most_at_once([orphan, repeat, alive], [T0 + 50], only_repeated=True) == 2
    assert most_at_once([orphan, alive, lasting("c", 60, 70)], [T0 + 50], only_repeated=True) == 3
