"""The metadata log on disk: real segments of 3.6.0 and 4.3.1, Kafka's own definitions, torn ends, snapshots."""

import io
import json
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.harness.results.reader import keep_logs, read_logs
from fencepost.systems.kafka.kraft.metadata_log import read_archive, read_files
from fencepost.systems.kafka.server import storage, versions
from fencepost.systems.kafka.wire.codec import MalformedMessage, layout_of
from fencepost.systems.kafka.wire.metadata_entries import newest_version
from fencepost.systems.kafka.wire.metadata_records import records
from fencepost.systems.kafka.wire.records import write_batch

SEGMENT: Final = f"{0:020d}.log"
REAL: Final = {
    version: bytes.fromhex(text)
    for version, text in (
        line.split()
        for line in Path(__file__).with_name("kafka_metadata_log.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}
VERSIONS: Final = sorted(REAL)


def log_of(data: bytes, **more: bytes) -> NodeLog:
    log = read_files({SEGMENT: data, **more}, "n1")
    assert log is not None
    return log


def entries(log: NodeLog, kind: str) -> list[LogEntry]:
    return [entry for entry in log.entries if entry.type == kind]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_log_is_read_whole(version: str) -> None:
    log = log_of(REAL[version])
    assert [entry.offset for entry in log.entries] == list(range(len(log.entries)))
    assert not log.torn
    assert not [entry for entry in log.entries if "raw" in entry.fields or entry.type.startswith("record-")]
    # It was killed once: two reigns, each begun by the raft layer.
    assert [(e.epoch, e.fields["leader_id"]) for e in entries(log, "leader-change")] == [(1, 1), (2, 1)]
    assert [e.epoch for e in log.entries] == sorted(e.epoch for e in log.entries)
    settings = [e.fields for e in entries(log, "config") if e.fields.get("resource_name") == "k0"]
    assert [fields["value"] for fields in settings] == ["11", "12", "13"]
    assert {(fields["resource_type"], fields["name"]) for fields in settings} == {(2, "retention.bytes")}
    topics = {e.fields["name"]: e.fields["topic_id"] for e in entries(log, "topic")}
    assert list(topics) == ["k0", "t5", "t6"]
    assert [e.fields["topic_id"] for e in entries(log, "remove-topic")] == [topics["t5"]]
    assert entries(log, "producer-ids")[0].fields["next_producer_id"] == 1000
    assert entries(log, "no-op")
    partitions = entries(log, "partition")
    assert [e.fields["topic_id"] for e in partitions] == list(topics.values())
    assert all(e.fields["isr"] == e.fields["replicas"] == [1] for e in partitions)
    # The epoch of a broker is where the batch begins by which it was registered.
    for entry in entries(log, "register-broker"):
        assert 0 <= entry.offset - entry.fields["broker_epoch"] <= 1
        assert entry.fields["end_points"][0]["host"] == "127.0.0.1"
    assert entries(log, "broker-registration-change")[0].fields["fenced"] == -1
    level = next(e for e in entries(log, "feature-level") if e.fields["name"] == "metadata.version")
    assert level.fields["feature_level"] == {"3.6.0": 14, "4.3.1": 30}[version]


def batch_ends(data: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(data):
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
        ends.append(at)
    return ends


@pytest.mark.parametrize("version", VERSIONS)
def test_half_a_batch_at_the_end_is_where_the_log_ends(version: str) -> None:
    data = REAL[version]
    whole = log_of(data).entries
    *_, before, end = batch_ends(data)
    assert end == len(data)
    for cut in (before + 1, before + 20, end - 1):
        log = log_of(data[:cut])
        assert log.torn
        assert log.entries == whole[: len(log.entries)]
        assert len(log.entries) < len(whole)
    assert not log_of(data[:before]).torn


def test_a_wrong_byte_is_the_end_at_the_very_end_and_malformed_before() -> None:
    data = bytearray(REAL["4.3.1"])
    data[-3] ^= 1
    assert log_of(bytes(data)).torn
    data = bytearray(REAL["4.3.1"])
    data[batch_ends(REAL["4.3.1"])[3] - 3] ^= 1
    with pytest.raises(MalformedMessage, match=r"0{20}\.log, byte \d+: .*checksum"):
        log_of(bytes(data))


def test_zeros_behind_the_last_batch_are_room_not_entries() -> None:
    log = log_of(REAL["3.6.0"] + bytes(4096))
    assert len(log.entries) == len(log_of(REAL["3.6.0"]).entries)


def test_a_torn_segment_that_another_one_follows_is_malformed() -> None:
    data = REAL["4.3.1"]
    with pytest.raises(MalformedMessage):
        read_files({SEGMENT: data[:-1], f"{99:020d}.log": b""}, "n1")


def test_what_is_not_known_is_kept_as_it_is() -> None:
    later = write_batch([b"\1\x63\0abc", b"\1\x04\x09xyz"], timestamp_ms=0)
    log = log_of(later)
    assert [(e.type, e.fields) for e in log.entries] == [
        ("record-99", {"raw": b"\1\x63\0abc".hex()}),
        ("config", {"raw": b"\1\x04\x09xyz".hex()}),
    ]


def test_a_snapshot_stands_for_what_was_before_the_log() -> None:
    snapshot = storage.checkpoint({"metadata.version": 30})
    log = read_files({f"{40:020d}.log": b"", f"{40:020d}-{3:010d}.checkpoint": snapshot}, "n2")
    assert log is not None
    assert (log.start_offset, log.snapshot_end, log.entries) == (40, 40, ())
    assert [entry.type for entry in log.snapshot] == ["snapshot-header", "feature-level", "snapshot-footer"]
    # That of offset 0 is what a new cluster begins with.
    assert log_of(REAL["4.3.1"], **{f"{0:020d}-{0:010d}.checkpoint": snapshot}).snapshot == ()


def test_no_segment_is_no_log() -> None:
    assert read_files({"quorum-state": b"{}"}, "n1") is None


# -- out of a node's kept data, into the run's folder -------------------------------------------------------------


def archive(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_logs_are_kept_in_the_folder_and_read_back(tmp_path: Path) -> None:
    inside = f"n1/__cluster_metadata-0/{SEGMENT}"
    archive(tmp_path / "nodes/n1/data.tar.gz", {inside: REAL["4.3.1"], "n1/t6-0/00000000000000000000.log": b"no"})
    archive(tmp_path / "nodes/b1/data.tar.gz", {"b1/meta.properties": b""})
    assert keep_logs(tmp_path, read_archive) == []
    assert read_logs(tmp_path) == {"n1": log_of(REAL["4.3.1"])}
    lines = (tmp_path / "nodes/n1/metadata-log.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"node": "n1", "start_offset": 0}
    assert json.loads(lines[20]) == {
        "offset": 19,
        "epoch": 1,
        "type": "config",
        "fields": {"resource_type": 2, "resource_name": "k0", "name": "retention.bytes", "value": "12"},
    }


def test_a_log_that_cannot_be_read_is_told_and_costs_the_others_nothing(tmp_path: Path) -> None:
    archive(tmp_path / "nodes/n1/data.tar.gz", {f"n1/__cluster_metadata-0/{SEGMENT}": REAL["3.6.0"]})
    bad = bytearray(REAL["3.6.0"])
    bad[70] ^= 1
    archive(tmp_path / "nodes/n2/data.tar.gz", {f"n2/__cluster_metadata-0/{SEGMENT}": bytes(bad)})
    (tmp_path / "nodes/n3").mkdir()
    (tmp_path / "nodes/n3/data.tar.gz").write_bytes(b"half of it")
    problems = keep_logs(tmp_path, read_archive)
    assert [problem.split(" could not")[0] for problem in problems] == [
        "the log on the disk of n2",
        "the log on the disk of n3",
    ]
    assert list(read_logs(tmp_path)) == ["n1"]


# -- Kafka's own definitions --------------------------------------------------------------------------------------


def _definitions(release: str) -> dict[int, Any]:
    (metadata,) = [one for one in versions.JARS.jars(release) if one.name == f"kafka-metadata-{release}.jar"]
    found = {}
    with zipfile.ZipFile(metadata) as jar:
        for name in jar.namelist():
            if name.startswith("common/metadata/") and name.endswith(".json"):
                record = json.loads(re.sub(r"(?m)(^|\s)//.*$", "", jar.read(name).decode()))
                found[record["apiKey"]] = record
    return found


def _check(ours: Any, theirs: list[Any], newest: int, where: str) -> None:
    tables = dict(ours.fields)
    plain = [field.name for field in tables.values() if field.tag is None and field.max_version >= 0]
    wanted = []
    for field in theirs:
        since = int(field["versions"].rstrip("+").split("-")[0])
        if since > newest:
            continue
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field["name"]).lower()
        mine = tables[name]
        assert mine.min_version == since, (where, name)
        assert mine.tag == field.get("tag"), (where, name)
        assert mine.nullable_for_version_q(newest) == ("nullableVersions" in field), (where, name)
        if mine.is_struct_array():
            assert field["type"].startswith("[]"), (where, name)
            _check(mine, field["fields"], newest, f"{where}.{name}")
        else:
            assert mine.type_str == field["type"], (where, name)
        if "tag" not in field:
            wanted.append(name)
    assert plain == wanted, where


def _where_kept(release: str) -> Any:
    """The release; it is left to the long tests where its jars would have to be fetched first."""
    return pytest.param(release, marks=() if versions.JARS.are_fetched(release) else pytest.mark.long)


@pytest.mark.parametrize("release", [_where_kept(one) for one in ("3.6.0", "3.9.2", "4.3.1")])
def test_tables_are_those_of_kafka(release: str) -> None:
    theirs = _definitions(release)
    for number, table in records().items():
        if number not in theirs:
            continue
        name, newest = table.__name__, newest_version(table)
        versions = theirs[number]["validVersions"]
        if release == "4.3.1":
            assert int(versions.split("-")[-1]) == newest, name
            _check(layout_of(table), theirs[number]["fields"], newest, name)
        else:
            assert int(versions.split("-")[-1]) <= newest, name
