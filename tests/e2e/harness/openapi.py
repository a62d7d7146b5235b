"""Holds the server's answers to its own description. The client in server.py asks for it after every request.

An answer must have a status that its operation describes, the media type, the headers that are called required, and a body that fits the
schema. A body may have no field that the schema does not name: the description promises less to clients (a release may add fields), but a
field that we send and do not describe is a gap.

Schemas are compiled to functions, one for each operation and status that a test meets.
"""

import functools
import json
import re

import fastjsonschema

from conftest import ROOT

SOURCE = ROOT / "src/api/server/openapi.json"  # test_api.py shows that the server serves this very text
FORMATS = {
    "date-time": r"^\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "uuid": r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "uri-reference": r"^/",
}


class Mismatch(AssertionError):
    """The description and the answer differ."""


@functools.cache
def description():
    return json.loads(SOURCE.read_text())


def follow(node):
    """A reference's target."""
    while "$ref" in node:
        found = description()
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def closed(schema):
    """The schema, but an object has no fields that it does not name. allOf becomes one object."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema:
        parts = [follow(part) for part in schema["allOf"]]
        merged = {"type": "object", "properties": {}, "required": []}
        for part in parts:
            merged["properties"] |= part["properties"]
            merged["required"] += part.get("required", [])
        return closed(merged)
    made = {key: closed(value) if key not in ("properties", "enum", "const", "examples", "default") else value for key, value in schema.items()}
    if made.get("format") not in FORMATS:
        made.pop("format", None)
    if "properties" in schema:
        made["properties"] = {name: closed(value) for name, value in schema["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made


@functools.cache
def closed_schemas():
    return {name: closed(schema) for name, schema in description()["components"]["schemas"].items()}


@functools.cache
def routes():
    """(method, pattern of the path, operation), the paths without a parameter first."""
    found = []
    for path, item in description()["paths"].items():
        pattern = re.compile(re.sub(r"\\{(\w+)\\}", lambda m: FORMATS["uuid"][1:-1] if m[1] == "id" else r"[A-Za-z0-9._:-]+", re.escape(path)))
        found += [(path.count("{"), method.upper(), pattern, operation) for method, operation in item.items()]
    return [(method, pattern, operation) for _, method, pattern, operation in sorted(found, key=lambda row: row[0])]


@functools.lru_cache(maxsize=4096)
def operation_of(method, path):
    return next((operation for known, pattern, operation in routes() if known == method and pattern.fullmatch(path)), None)


@functools.cache
def compiled(text):
    """The function that checks a body against a schema, which is given as JSON."""
    schema = {**closed(json.loads(text)), "components": {"schemas": closed_schemas()}}
    return fastjsonschema.compile(schema, formats=FORMATS)


@functools.lru_cache(maxsize=4096)
def checks_of(operation_id, status):
    """Of an operation and a status: (media type → function that checks the body, names of the headers that must be there); None: not
    described."""
    operation = next((one for _, _, one in routes() if one["operationId"] == operation_id), None)
    if operation is None:
        answer = {"$ref": "#/components/responses/Problem"} if status >= 400 else None
    else:
        answer = operation["responses"].get(str(status)) or (operation["responses"].get("default") if status >= 400 else None)
    if answer is None:
        return None
    answer = follow(answer)
    bodies = {kind: compiled(json.dumps(media["schema"])) for kind, media in answer.get("content", {}).items()}
    headers = [name.lower() for name, header in answer.get("headers", {}).items() if follow(header).get("required")]
    return bodies, headers


def check(method, target, answer):
    """Raises Mismatch if the answer to a request is not as described."""
    path = target.partition("?")[0]
    if method == "OPTIONS":
        return
    if answer.status == 431 and answer.body.startswith(b"<html>"):
        return  # the HTTP library's own answer: it had no room to read the request
    operation = operation_of("GET" if method == "HEAD" else method, path)
    said = f"{method} {target[:200]} → {answer}"
    if operation is None and answer.status < 400:
        raise Mismatch(f"the route is not described: {said}")
    checks = checks_of(operation["operationId"] if operation else None, answer.status)
    if checks is None:
        raise Mismatch(f"the status is not described: {said}")
    bodies, headers = checks
    for name in headers:
        if name not in answer.headers:
            raise Mismatch(f"the header {name} is missing: {said}")
    if method != "HEAD":
        check_body(bodies, answer, said)


def check_body(bodies, answer, said):
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if not bodies:
        if answer.body:
            raise Mismatch(f"a body is not described: {said}")
        return
    if kind not in bodies:
        raise Mismatch(f"the media type '{kind}' is not described: {said}")
    try:
        bodies[kind](answer.json if kind.endswith("json") else answer.body.decode())
    except fastjsonschema.JsonSchemaException as e:
        raise Mismatch(f"{e.message}: {said}") from None


class FirstAnswers:
    """For load: only the first answer of each route and status is checked."""

    def __init__(self):
        self.seen = set()

    def check(self, method, target, answer):
        operation = operation_of(method, target.partition("?")[0])
        kind = (operation and operation["operationId"], method, answer.status)
        if kind not in self.seen:
            check(method, target, answer)
            self.seen.add(kind)
