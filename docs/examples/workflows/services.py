"""The services that the examples of docs/WORKFLOWS.md call: python3 services.py [PORT]. They answer JSON and keep nothing."""

import http.server
import json
import sys
import time


def extract(q):
    if q["source"] == "prices" and q["day"] == "2026-02-15":
        return 422, {"error": "no prices on a Sunday"}
    time.sleep(0.4 if q["source"] == "orders" else 0.1)
    return 200, {"file": f"{q['source']}-{q['day']}.csv", "rows": len(q["source"]) * 100}


def load(q):
    return 200, {"rows": sum(part["rows"] for part in q["parts"])}


def charge(q):
    return 200, {"payment": f"p-{q['order']}", "amount": q["amount"]}


def book(q):
    """No carrier goes to the moon."""
    return (422, {"error": "no carrier"}) if q["country"] == "moon" else (200, {"parcel": f"b-{q['order']}"})


SERVICES = {
    "/extract": extract,
    "/load": load,
    "/stock/reserve": lambda q: (200, {"reservation": f"r-{q['order']}"}),
    "/payment/charge": charge,
    "/parcel/book": book,
    "/report": lambda q: (200, {"report": f"report-{q['day'][:10]}.pdf"}),
    "/mail": lambda q: (200, {"sent": q["customer"]}),
}


class Services(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        status, answer = SERVICES.get(self.path, lambda q: (200, {"ok": True}))(body)
        text = json.dumps(answer).encode()
        sys.stdout.write(f"{self.path} {json.dumps(body)} {status}\n")  # one write: threads do not mix their lines
        sys.stdout.flush()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer.request_queue_size = 256
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Services).serve_forever()
