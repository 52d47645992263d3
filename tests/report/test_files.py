"""verdict.json and junit.xml: what a gate reads agrees with the verdict, for every sample and for hostile text."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from fencepost.campaigns.night.run_class import evidence_of, lag_ns_of, stalled_by
from fencepost.harness.base.errors import UsageError
from fencepost.harness.report import documents
from fencepost.harness.report.documents import junit_of
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import Validity, Verdict
from tests.report import sample

DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "verdict-format.md"


@pytest.mark.parametrize("name", sample.SAMPLES)
def test_document_comes_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    case = sample.SAMPLES[name]()
    path = tmp_path / "verdict.json"
    documents.write_verdict(documents.verdict_document(case), path)
    assert documents.read_verdict(path) == msgspec.json.decode(msgspec.json.encode(documents.verdict_document(case)))
    assert [p.name for p in tmp_path.iterdir()] == ["verdict.json"]


def test_document_says_what_decides_and_why() -> None:
    document = documents.verdict_document(sample.zookeeper_invalid())
    assert (document["format"], document["validity"], document["exit_code"]) == (3, "invalid", 1)
    assert document["fingerprint"] == "zookeeper:fresh-after-sync:stale-read:read+change:stops"
    first = document["guarantees"][0]
    assert (first["name"], first["standing"], first["known_issue"]) == (
        "fresh-after-sync",
        "relied-upon",
        "ZOOKEEPER-1675",
    )
    assert [(a["anomaly"], a["decides"], a["count"]) for a in document["anomalies"]] == [
        ("stale-read", True, 2),
        ("stale-answer", False, 2),
    ]
    witness = document["verdicts"][0]["witnesses"][0]
    assert len(witness["events"]) == len(witness["indexes"]) == 6
    assert witness["events"][0]["kind"] == "op"
    assert document["faults"]["pause"] == {"installed": 1, "skipped": 1, "indeterminate": 0}


def test_every_key_is_documented() -> None:
    text = DOCUMENTED.read_text(encoding="utf-8")
    document = documents.verdict_document(sample.zookeeper_invalid())
    verdict = document["verdicts"][0]
    parts = (document, document["guarantees"][0], document["anomalies"][0], verdict, verdict["witnesses"][0])
    missing = {key for part in parts for key in part if f"`{key}`" not in text}
    assert missing == set()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "format 'list'"),
        (b'{"format": 99}', "format 99 where 3 was expected"),
        (b'{"format": 1, "validity": 3}', "'validity': expected str"),
        (None, "No such file"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        documents.read_verdict(path)
    assert "verdict.json" in caught.value.message


OLD = {
    "checker": "coverage",
    "exposure": 3,
    "anomalies": {"stale-read": 1},
    "figures": {
        "loop_lag_ns_max": 7,
        "stalled_by": "the machine",
        "main_ok": {"read": 2},
        "reigns": [{"node": "n1", "from_ns": 5, "event": None, "events": {"from_ns": [4]}}],
    },
    "evidence": {
        "exposure": {"count": 3, "rows": [1, 2, 3]},
        "anomalies.stale-read": {"count": 1, "rows": [2]},
        "main_ok.read": {"count": 2, "rows": [5, 6]},
    },
}
NEW = {
    "checker": "coverage",
    "exposure": {"value": 3, "rows": [1, 2, 3]},
    "anomalies": {"stale-read": {"value": 1, "rows": [2]}},
    "figures": {
        "loop_lag_ns_max": {"value": 7, "rows": []},
        "stalled_by": "the machine",
        "main_ok": {"read": {"value": 2, "rows": [5, 6]}},
        "reigns": [{"node": "n1", "from_ns": {"value": 5, "rows": [4]}, "event": None}],
    },
}


@pytest.mark.parametrize("number", [1, 2])
def test_a_document_of_an_older_format_is_read_as_one_of_this_format(number: int, tmp_path: Path) -> None:
    document = {**documents.verdict_document(sample.zookeeper_invalid()), "verdicts": [OLD, {**OLD, "exposure": None}]}
    (tmp_path / "verdict.json").write_bytes(msgspec.json.encode({**document, "format": number}))
    found = documents.read_verdict(tmp_path / "verdict.json")
    assert (found["format"], found["verdicts"]) == (documents.FORMAT, [NEW, {**NEW, "exposure": None}])
    # What a night makes of a run, from the document in its folder.
    own = evidence_of(tmp_path, 1, tmp_path / "log").document
    assert (lag_ns_of(own), stalled_by(own)) == (7, "the machine")
    for wrong in ([3], [{**OLD, "evidence": 3}], [{**OLD, "figures": {"reigns": [{"events": 3, "n": 1}]}}]):
        (tmp_path / "verdict.json").write_bytes(msgspec.json.encode({**document, "format": number, "verdicts": wrong}))
        with pytest.raises(UsageError, match=f"'verdicts': not as format {number} has them"):
            documents.read_verdict(tmp_path / "verdict.json")


def counts(case: ReportCase) -> tuple[int, int, int, int]:
    suite = ET.fromstring(junit_of(case)).find("testsuite")
    assert suite is not None
    for name, path in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len(suite.findall(f"testcase/{path}"))
    tests, failures, errors, skipped = (int(suite.attrib[k]) for k in ("tests", "failures", "errors", "skipped"))
    return tests, failures, errors, skipped


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("etcd-valid", (2, 0, 0, 1)),  # what was not tested is skipped, not green and not red
        ("zookeeper-invalid", (3, 1, 0, 0)),  # the one that does not decide has passed
        ("unknown", (2, 0, 1, 0)),
        ("empty", (1, 0, 1, 0)),  # no verdict at all: the run itself is the error
        ("hostile", (1, 1, 0, 0)),
    ],
)
def test_junit_counts(name: str, expected: tuple[int, int, int, int]) -> None:
    assert counts(sample.SAMPLES[name]()) == expected


def test_junit_notes_what_does_not_decide_and_tells_the_witness() -> None:
    root = ET.fromstring(junit_of(sample.zookeeper_invalid()))
    note = root.find(".//testcase[@name='superseded-leader-does-not-act']/system-out")
    assert note is not None
    assert "does not decide (relied-upon): 2 stale answers" in (note.text or "")
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib == {"message": "2 stale reads", "type": "stale-read"}
    assert "process 900 wrote r1" in (failure.text or "")
    assert "repeat: fencepost run" in (failure.text or "")


@pytest.mark.parametrize("validity", list(Validity))
def test_junit_is_never_greener_than_the_verdict(validity: Validity) -> None:
    held = Verdict(checker="c", guarantee="linearizable", validity=Validity.VALID)
    case = msgspec.structs.replace(sample.etcd_valid(), verdicts=(held,), validity=validity)
    _, failures, errors, _ = counts(case)
    assert (failures, errors) == {Validity.VALID: (0, 0), Validity.INVALID: (1, 0), Validity.UNKNOWN: (0, 1)}[validity]


def test_junit_holds_only_what_xml_can_hold() -> None:
    case = msgspec.structs.replace(sample.hostile(), headline=sample.HOSTILE, command=sample.HOSTILE)
    xml = junit_of(case)
    assert ET.fromstring(xml.encode()) is not None
    assert "\\x00" in xml
    assert "\\ud800" in xml
