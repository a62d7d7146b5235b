"""Which tests have passed already: lines of a file, each an outcome, a tab and a test. The last line about a test counts. With it, a long run
that was interrupted goes on where it was: ./test e2e --resume."""

import pathlib


def read(path):
    """The tests that passed last; none without a file."""
    if not path:
        return set()
    last = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n"):
        outcome, _, test = line.partition("\t")
        last[test] = outcome
    return {test for test, outcome in last.items() if outcome == "passed"}


class Passed:
    """A plugin of the process that began the run: the workers report to it."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8", buffering=1)  # by lines, for a run that is broken off
        self.outcomes = {}

    def pytest_runtest_logreport(self, report):
        """A test has passed when all of it has, also what cleans up behind it."""
        worst = self.outcomes.get(report.nodeid, "passed")
        self.outcomes[report.nodeid] = report.outcome if worst == "passed" else worst
        if report.when == "teardown":
            self.file.write(f"{self.outcomes.pop(report.nodeid)}\t{report.nodeid}\n")

    def pytest_unconfigure(self):
        self.file.close()
