"""Reports of robustness tests: operations with revisions, by client, judged key by key."""

import json
from pathlib import Path
from typing import Any

import pytest

import fencepost

_NO_ANSWER: dict[str, Any] = {"Error": "timeout", "Revision": 0}


def _put(key: str, value: str, lease: int = 0) -> dict[str, Any]:
    return {"Type": "put-operation", "Put": {"Key": key, "Value": {"Value": value}, "LeaseID": lease}}


def _txn(
    revision: int, *then: Any, when: int | None = None, other: Any = (), failed: bool = False, **result: Any
) -> Any:
    conditions = None if when is None else [{"Key": "a", "ExpectedRevision": when}]
    request = {"Conditions": conditions, "OperationsOnSuccess": then, "OperationsOnFailure": other or None}
    return {"Type": "txn", "Txn": request}, {"Txn": {"Failure": failed, "Results": [result]}, "Revision": revision}


def _get(revision: int, *pairs: tuple[str, str, int, int], end: str = "") -> Any:
    rows = [{"Key": k, "Value": {"Value": v}, "ModRevision": at, "Version": n} for k, v, at, n in pairs]
    request = {"Type": "range", "Range": {"Start": "a", "End": end, "Limit": 0, "Revision": 0}}
    return request, {"Range": {"KVs": rows, "Count": len(rows)}, "Revision": revision}


def _revoke(revision: int) -> Any:
    return {"Type": "leaseRevoke", "LeaseRevoke": {"LeaseID": 7}}, {"LeaseRevoke": {}, "Revision": revision}


def _check(folder: Path, *operations: Any) -> fencepost.CheckedHistory:
    for i, (request, answer) in enumerate(operations):
        client = folder / f"client-{i % 2 + 1}"
        client.mkdir(exist_ok=True)
        row = {"ClientId": i % 2 + 1, "Input": request, "Call": 10 * i, "Output": answer, "Return": 10 * i + 5}
        with (client / "operations.json").open("a") as file:
            file.write(json.dumps(row) + "\n")
    return fencepost.check(folder)


_A2 = ("a", "x", 2, 1)
_GET = {"Type": "range-operation", "Range": {"Start": "a"}}
_DELETE = {"Type": "delete-operation", "Delete": {"Key": "a"}}


@pytest.mark.parametrize(
    ("operations", "validity"),
    [
        ((_txn(2, _put("a", "x")), _get(2, _A2), _get(2)), "invalid"),
        ((_txn(2, _put("a", "x")), _get(2, _A2), _get(2, _A2)), "valid"),
        ((_txn(2, _put("a", "x")), _get(2, ("a", "x", 3, 1)), _get(2, _A2)), "invalid"),
        ((_txn(2, _put("a", "x")), _get(2, ("a", "x", 2, 2)), _get(2, _A2)), "invalid"),
        ((_txn(3, _put("a", "x")), _txn(2, _put("a", "y")), _get(3, ("a", "y", 2, 2))), "invalid"),
        ((_txn(2, _put("a", "x")), _txn(3, _DELETE, Deleted=1), _get(3)), "valid"),
        ((_txn(2, _put("a", "x")), _txn(2, _DELETE, Deleted=0), _get(2, _A2)), "invalid"),
        ((_txn(2, _put("a", "x")), _txn(3, _put("a", "y"), when=2), _get(3, ("a", "y", 3, 2))), "valid"),
        ((_txn(2, _put("a", "x")), _txn(3, _put("a", "y"), when=1), _get(3, ("a", "y", 3, 2))), "invalid"),
        ((_txn(2, _put("a", "x")), _txn(2, _put("a", "y"), when=1, other=[_GET], failed=True), _get(2)), "invalid"),
        ((_txn(2, _put("a", "x", 7)), _revoke(3), _get(3)), "valid"),
        ((_txn(2, _put("a", "x", 7)), _revoke(3), _get(3, _A2)), "invalid"),
        (((_txn(2, _put("a", "x"))[0], _NO_ANSWER), _get(1), _get(2, _A2), _get(2, _A2)), "valid"),
        (((_txn(2, _put("a", "x"))[0], _NO_ANSWER), _get(2, _A2), _get(2)), "invalid"),
        ((_txn(2, _put("a", "x")), _txn(3, _put("b", "y")), _get(3, _A2, ("b", "y", 3, 1), end="c")), "valid"),
        ((_txn(2, _put("a", "x")), _txn(3, _put("b", "y")), _get(3, _A2, end="c")), "invalid"),
    ],
)
def test_revisions_are_judged_key_by_key(tmp_path: Path, operations: Any, validity: str) -> None:
    result = _check(tmp_path, *operations)
    assert result.validity == validity, result.explain()
    assert validity == "valid" or "/operations.json, line " in result.explain()


def test_what_is_no_operation_is_refused_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(fencepost.UsageError, match=r"client-1/operations.json: line 1, column 1: no operation"):
        _check(tmp_path, ({"Type": "range"}, {}), _txn(2, _put("a", "x")))
