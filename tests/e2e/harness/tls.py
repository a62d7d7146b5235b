"""Receivers that speak TLS: HTTP/1.1 by Python's ssl, HTTP/2 by the h2 library."""

import dataclasses
import socket
import ssl

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from certificates import Authority  # noqa: F401
from server import Call, Receiver, Reply, now_ms


class TlsReceiver(Receiver):
    """A receiver behind TLS. Counts what was greeted, and what the greeting agreed on."""

    alpn = ("http/1.1",)

    def __init__(self, certificate):
        self.greetings = []  # what ALPN chose, one for each connection that was accepted
        self.refusals = []   # the words of failed greetings
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.set_alpn_protocols(self.alpn)
        super().__init__()

    def url(self, path="/", host="127.0.0.1"):
        return f"https://{host}:{self.port}{path}"

    def _serve(self, connection):
        try:
            secure = self.context.wrap_socket(connection, server_side=True)
        except OSError as e:  # ssl.SSLError is one
            with self.changed:
                self.refusals.append(str(e))
                self.sockets.discard(connection)
            connection.close()
            return
        with self.changed:
            self.greetings.append(secure.selected_alpn_protocol())
            self.sockets.discard(connection)
            self.sockets.add(secure)
        super()._serve(secure)


@dataclasses.dataclass
class Stream(Call):
    """A call over HTTP/2."""

    connection: int = 0
    stream: int = 0
    reset: bool = False


class Http2Receiver(TlsReceiver):
    """Streams of one connection wait for their answers side by side: a Reply's hold keeps back that one alone."""

    alpn = ("h2", "http/1.1")
    TURN_S = 0.02  # how often a connection looks whether somebody let go of an answer
    streams_max = 250

    def _serve_one(self, connection, stream):
        if connection.selected_alpn_protocol() != "h2":
            return super()._serve_one(connection, stream)
        with self.changed:
            number = len(self.greetings)
        Http2Connection(self, connection, number).run()
        return False


class Http2Connection:
    def __init__(self, receiver, connection, number):
        self.receiver, self.socket, self.number = receiver, connection, number
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.open = {}     # stream → its call, still coming in
        self.waiting = []  # (call, reply), to be answered

    def run(self):
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.receiver.streams_max})
        self.h2.initiate_connection()
        self.socket.settimeout(self.receiver.TURN_S)
        while True:
            self.answer_what_may_go()
            self.socket.sendall(self.h2.data_to_send())
            try:
                data = self.socket.recv(65536)
            except socket.timeout:
                continue
            if not data:
                for stream in [call.stream for call, _ in self.waiting]:
                    self.drop(stream)
                return
            try:
                events = self.h2.receive_data(data)
            except h2.exceptions.ProtocolError as e:
                raise OSError(f"HTTP/2: {e}") from e
            for event in events:
                self.handle(event)

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            headers = dict(event.headers)
            self.open[event.stream_id] = Stream(now_ms(), headers[":method"], headers[":path"], headers, b"", connection=self.number,
                                                stream=event.stream_id)
        elif isinstance(event, h2.events.DataReceived):
            self.open[event.stream_id].body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.take(self.open.pop(event.stream_id))
        elif isinstance(event, h2.events.StreamReset):
            self.drop(event.stream_id)

    def take(self, call):
        receiver = self.receiver
        with receiver.changed:
            receiver.calls.append(call)
            replies = receiver.replies.get(call.path) or [Reply()]
            self.waiting.append((call, replies.pop(0) if len(replies) > 1 else replies[0]))
            receiver.changed.notify_all()

    def drop(self, stream):
        self.open.pop(stream, None)
        for call, _ in self.waiting:
            call.reset = call.reset or call.stream == stream
        with self.receiver.changed:
            self.receiver.changed.notify_all()
        self.waiting = [w for w in self.waiting if not w[0].reset]

    def answer_what_may_go(self):
        held = []
        for call, reply in self.waiting:
            if reply.hold and not reply.hold.is_set():
                held.append((call, reply))
                continue
            self.h2.send_headers(call.stream, [(":status", str(reply.status)), *reply.headers.items()])
            self.h2.send_data(call.stream, reply.body, end_stream=True)
            call.status = reply.status
        self.waiting = held
