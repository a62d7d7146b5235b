#!/usr/bin/env python3
"""A wire that a test can cut: TCP proxies, one a wire, in a process of their own so that a busy test does not slow them down.

    with Wires() as wires:
        wire = wires.new(port_of_the_server)     # wire.port is what clients connect to
        wire.drop()

What a wire can be told:

    heal()            from now on everything passes; what was dropped stays dead
    reset()           all connections are reset, both ways; new ones pass
    refuse()          the same, and new ones are refused
    drop()            nothing passes any more and nobody is told: connections go silent for good, new ones are taken and stay silent.
                      The server's side of a silent one is closed after SILENT_S, as keepalives would do
    delay(ms)         each piece of data comes so much later, in its order
    lose(needle)      once: a request goes through, and when the server's answer arrives the connection is reset instead. With a
                      needle, at the first answer that has these bytes in it: b"COMMIT\\0" is that of a transaction which is committed

Run as a program it takes one command a line (JSON) and answers each with a line.
"""

import asyncio
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading

from ports import free_port

PIECE = 1 << 16
SILENT_S = 6
READ_MAX = 1 << 18


# ----------------------------------------------------------------------------------------------------------------------
# the process


class Link:
    """One connection of a client, and ours to the server."""

    def __init__(self, wire, reader, writer):
        self.wire, self.client_reader, self.client = wire, reader, writer
        self.server_reader = self.server = self.pumps = None
        self.silent = wire.mode == "drop"
        self.asked = False  # the client has sent something since the wire was told to lose an answer

    async def run(self):
        try:
            if not self.silent:
                await self.carry()
        except (OSError, asyncio.CancelledError):
            pass
        try:
            if self.silent:
                await self.silence()
        except OSError:
            pass
        self.wire.links.discard(self)
        self.reset()

    async def carry(self):
        self.server_reader, self.server = await asyncio.open_connection("127.0.0.1", self.wire.target, limit=READ_MAX)
        for side in (self.client, self.server):
            side.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.silent:
            self.pumps = asyncio.gather(self.pump(self.client_reader, self.server, True), self.pump(self.server_reader, self.client, False))
            await self.pumps

    async def pump(self, reader, writer, is_request):
        while (piece := await reader.read(PIECE)):
            if self.wire.delay_ms:
                await asyncio.sleep(self.wire.delay_ms / 1000)
            if self.is_lost(piece, is_request):
                break
            writer.write(piece)
            await writer.drain()
        raise ConnectionResetError  # one side has gone: so does the other

    def fall_silent(self):
        self.silent = True
        if self.pumps:
            self.pumps.cancel()

    async def silence(self):
        """After a while the server's kernel gives up on us; the client is told nothing, whatever becomes of the wire."""
        if self.server:
            asyncio.get_running_loop().call_later(SILENT_S, self.abort, self.server)
        while await self.client_reader.read(PIECE):
            pass
        await asyncio.sleep(SILENT_S)

    def is_lost(self, piece, is_request):
        """Of the link that asks first after the wire was told, the answer is lost; with a needle, of that which gets the answer first."""
        needle = self.wire.needle
        if needle is None:
            return False
        if is_request:
            self.asked = True
            return False
        if not self.asked or needle not in piece:
            return False
        self.wire.needle = None
        self.wire.lost += 1
        return True

    @staticmethod
    def abort(writer):
        """Closes with a reset."""
        if not writer.transport.is_closing():
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    def reset(self):
        for side in (self.client, self.server):
            if side:
                self.abort(side)


class Wire:
    def __init__(self, target, port=0):
        self.target = target
        self.mode = "heal"
        self.delay_ms = 0
        self.needle = None
        self.lost = 0
        self.links = set()
        self.tasks = set()
        self.listener = None
        self.port = port or free_port()  # one that no outgoing connection gets while this refuses

    async def listen(self):
        if self.listener is None:
            self.listener = await asyncio.start_server(self.accept, "127.0.0.1", self.port, limit=READ_MAX, backlog=1024)

    def accept(self, reader, writer):
        link = Link(self, reader, writer)
        self.links.add(link)
        task = asyncio.get_running_loop().create_task(link.run())
        self.tasks.add(task)  # or nobody holds it
        task.add_done_callback(self.tasks.discard)

    def cut(self):
        for link in list(self.links):
            link.reset()

    async def tell(self, command):
        what = command["do"]
        if what == "lose":
            self.needle = command["needle"].encode("latin-1")
            for link in self.links:
                link.asked = False
            return
        if what == "state":
            return
        self.needle, self.delay_ms = None, command.get("ms", 0)
        self.mode = what
        if what == "refuse":
            if self.listener:  # it may refuse already
                self.listener.close()
            self.listener = None
        else:
            await self.listen()
        if what in ("refuse", "reset"):
            self.cut()
        if what == "drop":
            for link in self.links:
                link.fall_silent()


async def serve():
    wires = {}
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=READ_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while (line := await commands.readline()):
        command = json.loads(line)
        if command["do"] == "new":
            wire = Wire(command["target"], command["port"])
            await wire.listen()
            wires[wire.port] = wire
        elif command["do"] == "aim":
            wire = wires[command["wire"]]
            wire.target = command["target"]
        else:
            wire = wires[command["wire"]]
            await wire.tell(command)
        print(json.dumps({"port": wire.port, "links": len(wire.links), "lost": wire.lost}), flush=True)


# ----------------------------------------------------------------------------------------------------------------------
# the test's side


class WireHandle:
    """What a test holds of a wire."""

    def __init__(self, wires, port):
        self.wires, self.port = wires, port

    def _tell(self, what, **more):
        return self.wires.ask(do=what, wire=self.port, **more)

    def heal(self):
        return self._tell("heal")

    def reset(self):
        return self._tell("reset")

    def refuse(self):
        return self._tell("refuse")

    def drop(self):
        return self._tell("drop")

    def delay(self, ms):
        return self._tell("delay", ms=ms)

    def lose(self, needle=b""):
        return self._tell("lose", needle=needle.decode("latin-1"))

    def aim(self, port):
        """New connections go to another server."""
        return self._tell("aim", target=port)

    def state(self):
        """links: how many connections there are; lost: how many answers were."""
        return self._tell("state")


class Wires:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, pathlib.Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, **command):
        with self.lock:
            print(json.dumps(command), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        assert line, "the proxy has ended"
        return json.loads(line)

    def new(self, target, port=0):
        """A wire to a port of this machine; by a port of ours, else by any that is free."""
        return WireHandle(self, self.ask(do="new", target=target, port=port)["port"])

    def close(self):
        self.process.stdin.close()  # at which it ends
        self.process.wait(10)
        self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve())
