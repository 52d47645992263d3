"""Reports of etcd's robustness tests: a folder with `client-N/operations.json`, judged key by key with its revisions.

Each line is an operation as etcd's model has it: a range or a transaction. It is split into what it asks of each key,
and what it was told of it; conditions on other keys leave open which branch was taken, unless the answer says it. Reads
of old revisions, compactions and defragmentations say nothing of the newest state, and are left out with a note.
Source: tests/robustness/model/types.go.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.harness.history import Outcome
from fencepost.harness.interchange.formats.calls import Call, CallEvents
from fencepost.harness.interchange.formats.edn import malformed
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory, InFile, json_text
from fencepost.harness.interchange.formats.json_objects import json_objects, utf8
from fencepost.harness.interchange.formats.recognise import REPORTS

FORM: Final = "robustness"
#: In place of a revision where a read was not linearizable.
_NOT_LINEARIZABLE: Final = -1


class Version(NamedTuple):
    """What a key holds: None for nothing; the revision of its last change, and how many there were, None if unknown."""

    value: Any = None
    revision: int | None = 0
    version: int | None = 0
    lease: int = 0

    def __repr__(self) -> str:
        known = {"revision": self.revision, "version": self.version, "lease": self.lease or None}
        more = "".join(f", {name} {number}" for name, number in known.items() if number is not None)
        return "nothing" if self.value is None else f"{self.value!r}{more}"


class Versions(frozenset[Version]):
    """All versions that a key may hold."""

    def __repr__(self) -> str:
        return " or ".join(sorted(map(repr, self)))


class RevisionedKey:
    """One key of a store with revisions."""

    def init(self) -> Versions:
        return Versions((Version(),))

    def step(self, state: Versions, f: str, value: Any, result: Any) -> Versions | None:
        """Return the versions after a request, of which `value` has the key's part; see `_parts`."""
        answer = result if isinstance(result, dict) else {}
        return Versions(after for one in state for after in _outcomes(one, value, answer)) or None


def _outcomes(one: Version, request: dict[str, Any], answer: dict[str, Any]) -> Iterator[Version]:
    known = {"ExpectedRevision": one.revision, "ExpectedVersion": one.version}
    holds = [None if known[name] is None else known[name] == number for name, number in request["if"]]
    for succeeds in (True, False):
        is_possible = False not in holds if succeeds else request["others"] or not all(holds)
        if is_possible and answer.get("failed", not succeeds) is not succeeds:
            after = _after(one, request["then" if succeeds else "else"], answer)
            if after is not None:
                yield after


def _after(one: Version, actions: Iterable[list[Any]], answer: dict[str, Any]) -> Version | None:
    """Return what is there after these actions; None where the answer says what cannot be."""
    revision = answer.get("revision")
    for (kind, *more), part in zip(actions, answer.get("parts") or repeat(None), strict=False):
        if kind == "get" and part is not None:
            alike = all(mine is None or other in (None, mine) for mine, other in zip(one[1:3], part[1:], strict=True))
            if part[0] != one.value or (one.value is not None and not alike):
                return None
            one = one._replace(revision=part[1], version=part[2]) if one.value is not None else one
        elif kind == "put":
            if revision is not None and one.revision is not None and revision <= one.revision:
                return None
            one = Version(more[0], revision, None if one.version is None else one.version + 1, more[1])
        elif kind == "delete":
            if part is not None and bool(part) != (one.value is not None):
                return None
            one = Version()
        elif kind == "revoke" and one.lease == more[0]:
            one = Version()
    return one


def read_robustness(folder: Path) -> Imported:
    """Read the reports in a folder; raises MalformedHistory with file, line and column."""
    entries: list[tuple[str, int, int, Any]] = []
    for file in sorted(folder.glob(REPORTS), key=lambda path: (len(path.parent.name), path.parent.name)):
        name = str(file)
        entries += [(name, *entry) for entry in json_objects(utf8(file.read_bytes(), name), name)]
    calls: list[Call] = []
    places: list[str] = []
    leases: dict[str, set[int]] = {}

    def puts(entry: Any) -> list[Call]:
        for key, lease in _puts(entry):
            leases.setdefault(key, set()).add(lease)
        return []

    for read in (puts, lambda entry: list(_parts(entry, leases))):
        for name, line, column, entry in entries:
            try:
                parts = read(entry)
            except (AttributeError, IndexError, KeyError, TypeError) as error:
                raise malformed(name, line, column, f"no operation of these reports: {error!r:.60}") from None
            calls += parts
            places += [f"{Path(name).relative_to(folder)}, line {line}"] * len(parts)
    skipped = len(entries) - len(set(places))
    events = CallEvents(calls)
    in_file = InFile(
        lambda event: places[events.call_of(event)], lambda event: json_text(calls[events.call_of(event)].result)
    )
    family = choose(RevisionedKey, {call.f for call in calls}, lambda _: (), str(folder))
    history = ImportedHistory(events, family, source=str(folder), in_file=in_file)
    notes = (f"{skipped} operations left out that say nothing of the newest state",) if skipped else ()
    return Imported(history=history, form=FORM, keyed=True, notes=notes)


def _puts(entry: Any) -> Iterator[tuple[str, int]]:
    """Yield the keys that an operation puts, each with its lease."""
    branches = (entry.get("Input") or {}).get("Txn") or {} if isinstance(entry, dict) else {}
    for name in ("OperationsOnSuccess", "OperationsOnFailure"):
        for operation in branches.get(name) or ():
            if operation.get("Type") == "put-operation":
                yield operation["Put"]["Key"], operation["Put"].get("LeaseID") or 0


def _parts(entry: dict[str, Any], leases: dict[str, set[int]]) -> Iterator[Call]:
    """Split an operation into what it asks of each key and what it was told; nothing of what is left out."""
    request, output = entry["Input"], entry["Output"]
    kind, revision = request["Type"], output.get("Revision") or output.get("PersistedRevision")
    is_unknown = bool(output.get("Error"))
    conditions: list[dict[str, Any]] = []
    branches: dict[str, list[dict[str, Any]]] = {"then": [], "else": []}
    results: list[dict[str, Any]] | None = None
    called, returned = entry["Call"], entry["Call"] if is_unknown else entry["Return"]
    if type(called) is not int or type(returned) is not int or called > returned:
        raise TypeError("Call and Return are integers, the one before the other")
    if output.get("ClientError") or revision == _NOT_LINEARIZABLE:
        return
    if kind == "range" and not request["Range"].get("Revision"):
        branches["then"] = [{"Type": "range-operation", "Range": request["Range"]}]
        results = [output["Range"]] if output.get("Range") else None
    elif kind == "txn":
        conditions = request["Txn"].get("Conditions") or []
        branches = {
            "then": request["Txn"].get("OperationsOnSuccess") or [],
            "else": request["Txn"].get("OperationsOnFailure") or [],
        }
        results = output["Txn"].get("Results") or [] if output.get("Txn") else None
    elif kind == "leaseRevoke":
        branches["then"] = [{"Type": "revoke", "LeaseID": request["LeaseRevoke"]["LeaseID"]}]
    failed = bool(output["Txn"].get("Failure")) if output.get("Txn") else None
    for key in leases:
        if kind == "leaseRevoke" and request["LeaseRevoke"]["LeaseID"] not in leases[key]:
            continue
        own = {
            name: [(i, a) for i, one in enumerate(branch) if (a := _action(one, key))]
            for name, branch in branches.items()
        }
        tests = [_test(condition) for condition in conditions if condition["Key"] == key]
        if not (own["then"] or own["else"] or tests):
            continue
        answer: dict[str, Any] = {"revision": revision}
        if failed is not None:
            answer["failed"] = failed
        if results is not None:
            answer["parts"] = [_part(results[i], a, key) for i, a in own["else" if failed else "then"]]
        yield Call(
            client=None,
            f=kind,
            key=key,
            value={"if": tests, "others": len(tests) < len(conditions)}
            | {name: [a for _, a in branch] for name, branch in own.items()},
            result=answer,
            started=entry["Call"],
            ended=None if is_unknown else entry["Return"],
            type=Outcome.INFO if is_unknown else Outcome.OK,
        )


def _test(condition: dict[str, Any]) -> list[Any]:
    name = "ExpectedVersion" if condition.get("ExpectedVersion") else "ExpectedRevision"
    return [name, condition.get(name, 0)]


def _action(operation: dict[str, Any], key: str) -> list[Any] | None:
    match operation["Type"]:
        case "range-operation":
            start, end = operation["Range"]["Start"], operation["Range"].get("End")
            return ["get"] if (start <= key < end if end else start == key) else None
        case "put-operation" if operation["Put"]["Key"] == key:
            value = operation["Put"].get("Value") or {}
            return ["put", _text(value), operation["Put"].get("LeaseID") or 0]
        case "delete-operation" if operation["Delete"]["Key"] == key:
            return ["delete"]
        case "revoke":
            return ["revoke", operation["LeaseID"]]
    return None


def _part(result: dict[str, Any], action: list[Any], key: str) -> Any:
    """Return what a result says of a key: value, revision and version of a get, the number of a delete."""
    if action[0] != "get":
        return result.get("Deleted") if action[0] == "delete" else None
    pairs = result.get("KVs") or []
    pair = next((pair for pair in pairs if pair["Key"] == key), None)
    if pair is None:
        return [None, 0, 0] if len(pairs) == (result.get("Count") or 0) else None
    return [_text(pair.get("Value") or {}), pair.get("ModRevision"), pair.get("Version")]


def _text(value: dict[str, Any]) -> str:
    return str(value.get("Value") or f"#{value.get('Hash', '')}")
