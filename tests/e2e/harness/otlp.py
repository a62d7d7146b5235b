"""A collector of spans: an HTTP receiver that decodes OTLP requests (protobuf), with a decoder of its own. If OpenTelemetry's own classes are installed
(requirements/otlp.txt), each request is read by them, too, and both must read the same."""

import dataclasses
import glob
import struct
import sys

from conftest import ROOT
from server import Receiver, until

sys.path += [path for path in glob.glob(str(ROOT / "build-python/lib/python3*/site-packages")) if path not in sys.path]
try:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
except ImportError:
    ExportTraceServiceRequest = None

KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message: number → values. Fixed numbers are integers, all that has a length is bytes."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            [value], at = struct.unpack_from("<Q" if kind == 1 else "<I", data, at), at + size
        else:
            assert kind == 2, f"wire type {kind}"
            size, at = varint(data, at)
            assert at + size <= len(data), "a length beyond the end"
            value, at = data[at:at + size], at + size
        found.setdefault(number, []).append(value)
    return found


def attributes(messages):
    found = {}
    for message in messages:
        pair = fields(message)
        value = fields(pair[2][0])
        found[pair[1][0].decode()] = value[1][0].decode() if 1 in value else value[3][0]
    return found


@dataclasses.dataclass
class Span:
    trace: str
    id: str
    parent: str  # empty: none
    kind: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict
    links: list  # (trace, span)
    failed: bool
    error: str
    state: str
    sampled: bool
    resource: dict


def read_span(data, resource):
    f = fields(data)
    status = fields(f[15][0]) if 15 in f else {}
    links = [fields(link) for link in f.get(13, [])]
    return Span(trace=f[1][0].hex(), id=f[2][0].hex(), parent=f.get(4, [b""])[0].hex(), kind=KINDS[f[6][0]], name=f[5][0].decode(),
                start_ns=f[7][0], end_ns=f[8][0], attributes=attributes(f.get(9, [])), links=[(x[1][0].hex(), x[2][0].hex()) for x in links],
                failed=status.get(3) == [2], error=status.get(2, [b""])[0].decode(), state=f.get(3, [b""])[0].decode(), sampled=f[16][0] & 1 == 1,
                resource=resource)


def read_request(data):
    """All spans of an ExportTraceServiceRequest."""
    spans = []
    for resource_spans in fields(data)[1]:
        outer = fields(resource_spans)
        resource = attributes(fields(outer[1][0])[1])
        for scope_spans in outer[2]:
            inner = fields(scope_spans)
            assert fields(inner[1][0])[1] == [b"belfry"]
            spans += [read_span(s, resource) for s in inner[2]]
    assert ExportTraceServiceRequest is None or read_by_the_library(data) == spans
    return spans


def value_of(pair):
    return getattr(pair.value, pair.value.WhichOneof("value"))


def read_by_the_library(data):
    """The same by OpenTelemetry's classes."""
    request = ExportTraceServiceRequest.FromString(data)
    spans = []
    for outer in request.resource_spans:
        resource = {pair.key: value_of(pair) for pair in outer.resource.attributes}
        for inner in outer.scope_spans:
            spans += [Span(trace=s.trace_id.hex(), id=s.span_id.hex(), parent=s.parent_span_id.hex(), kind=KINDS[s.kind], name=s.name,
                           start_ns=s.start_time_unix_nano, end_ns=s.end_time_unix_nano, attributes={pair.key: value_of(pair) for pair in s.attributes},
                           links=[(link.trace_id.hex(), link.span_id.hex()) for link in s.links], failed=s.status.code == s.status.STATUS_CODE_ERROR,
                           error=s.status.message, state=s.trace_state, sampled=s.flags & 1 == 1, resource=resource) for s in inner.spans]
    known = ExportTraceServiceRequest()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    assert known == request, "it has fields that OpenTelemetry does not know"
    return spans


class Collector(Receiver):
    """Its replies are those of the path /v1/traces."""

    def spans(self, **want):
        """All spans so far that have these attributes of a Span."""
        found = [s for call in self.to("/v1/traces") if call.status in (0, 200) for s in read_request(call.body)]
        return [s for s in found if all(getattr(s, k) == v for k, v in want.items())]

    def wait_spans(self, count=1, **want):
        return until(lambda: len(found := self.spans(**want)) >= count and found, why=lambda: f"of {count} {want}: {self.spans()}")
