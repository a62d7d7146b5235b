"""A server whose wall clock the test sets, by tests/support/clock_shim.c."""

import mmap
import struct
import time

from conftest import BUILD
from server import now_ms

SHIM = BUILD / "tests/support/clock_shim.so"


class Clock:
    def __init__(self, path):
        path.write_bytes(struct.pack("q", 0))
        self.file = open(path, "r+b")
        self.page = mmap.mmap(self.file.fileno(), 8)
        self.ahead_ms = 0
        self.path = path

    def jump(self, ms):
        self.ahead_ms += ms
        self.page[:8] = struct.pack("q", self.ahead_ms)

    def now_ms(self):
        return now_ms() + self.ahead_ms

    @property
    def env(self):
        """For the server. Our library comes before the sanitizer's, which it minds by default."""
        return {"LD_PRELOAD": str(SHIM), "BELFRY_CLOCK_FILE": str(self.path), "ASAN_OPTIONS": "verify_asan_link_order=0"}


class PassingClock:
    """The world's own, for nodes that go by a store's clock: what is said to have passed passes."""

    env = {}
    ahead_ms = 0

    def jump(self, ms):
        assert 0 <= ms <= 10_000, "nobody waits that long: mark the test standalone"
        time.sleep(ms / 1000)

    def now_ms(self):
        return now_ms()
