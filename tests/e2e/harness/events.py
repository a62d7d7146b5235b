"""A reader of GET /v1/events. It holds the data of each event to the description, as the client does with answers."""

import functools
import http.client
import json
import socket
import threading

import openapi
from server import TIMEOUT_S, until


@functools.cache
def checker(name):
    operation = openapi.operation_of("GET", "/v1/events")
    kinds = operation["responses"]["200"]["content"]["text/event-stream"]["x-events"]
    assert name in kinds, f"the event {name} is not described"
    return openapi.compiled(json.dumps(kinds[name]))


class Events:
    """Reads on a thread of its own. events: (name, data, id) in the order in which they came. waits: for the first counts, which come within a
    second."""

    def __init__(self, server, key=None, query="", last_id=None, waits=True):
        node, self.is_alone = server.nodes[0], len(server.nodes) == 1
        self.has_starts = not hasattr(server, "workers")  # a worker of a fleet does not tell what it starts
        head = {"Authorization": f"Bearer {key or node.key}", "Accept": "text/event-stream"}
        if last_id:
            head["Last-Event-ID"] = last_id
        self.connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_S)
        self.connection.request("GET", f"/v1/events{query}", headers=head)
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.events, self.last_id, self.retry_ms, self.error = [], None, None, None
        self.over = threading.Event()
        if self.status != 200:
            self.problem = json.loads(self.response.read())
            self.over.set()
            return
        assert self.response.headers["content-type"] == "text/event-stream"
        threading.Thread(target=self._read, daemon=True).start()
        if waits:
            self.wait()

    def wait(self):
        until(lambda: self.of("counts") or self.over.is_set(), why="there were no counts")

    def _read(self):
        name = data = number = None
        try:
            for line in self.response:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    data = json.loads(value)
                elif field == "id":
                    number = value
                elif field == "retry":
                    self.retry_ms = int(value)
                elif not field:
                    self._dispatch(name, data, number)
                    name = data = number = None
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as e:
            self.error = e  # of a connection that was closed
        except Exception as e:  # pylint: disable=broad-exception-caught
            self.error = e
            raise
        finally:
            self.over.set()

    def _dispatch(self, name, data, number):
        self.last_id = number or self.last_id
        if data is None:
            return
        checker(name)(data)
        self.events.append((name, data, number))

    def of(self, name):
        return [data for kind, data, _ in self.events if kind == name]

    def tasks(self, task=None):
        """The events of tasks, without what was folded."""
        return [data for data in self.of("task") if "id" in data and task in (None, data["id"])]

    def folded(self):
        return sum(data.get("folded", 0) for data in self.of("task"))

    def counts(self):
        return self.of("counts")[-1]

    def saw(self, task, *states):
        """Waits until the task has had these states, in this order. What several nodes tell may come in another order."""
        states = [state for state in states if state != "RUNNING" or self.has_starts]

        def had():
            found = [e["status"] for e in self.tasks(task)]
            return found[-len(states):] == list(states) if self.is_alone else set(states) <= set(found)

        until(had,
              why=lambda: f"{task} was not {states}, but {self.tasks(task)}")
        return self.tasks(task)

    def ended(self):
        assert self.over.wait(TIMEOUT_S), "the stream did not end"
        return self.events[-1]

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, which holds the response until the next event
        except OSError:
            pass  # the other side was first
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
