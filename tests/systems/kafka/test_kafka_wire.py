"""Kafka's bytes: messages against real ones and against Kafka's own definitions, record batches, the checksum."""

import contextlib
import gzip
import json
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin.topics import DeleteTopicsResponse, ElectLeadersRequest, ElectLeadersResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.producer.produce import ProduceResponse

from fencepost.harness.base.crc32c import by_table, crc32c
from fencepost.harness.base.errors import MachineError
from fencepost.harness.plugins import registry
from fencepost.systems.kafka.server import versions
from fencepost.systems.kafka.wire.codec import MalformedMessage, decode, encode, layout_of, read_varint, varint
from fencepost.systems.kafka.wire.messages import ELECT_LEADERS, Api
from fencepost.systems.kafka.wire.records import Producer, read_batches, write_batch
from tests.fakes.kafka_broker import APIS

GOLDEN: Final = Path(__file__).with_name("kafka_golden.txt")
BY_NAME: Final = {api.name: api for api in APIS.values()}
EVERY_VERSION: Final = [(api, v) for api in APIS.values() for v in range(api.versions[0], api.versions[1] + 1)]


class Exchange(NamedTuple):
    api: Api[Any, Any]
    version: int
    request: bytes
    answer: bytes

    @property
    def flexible(self) -> bool:
        return self.version >= self.api.flexible


def exchanges() -> Iterator[Exchange]:
    for line in GOLDEN.read_text().splitlines()[1:]:
        name, version, request, answer = line.split()
        yield Exchange(BY_NAME[name], int(version), bytes.fromhex(request), bytes.fromhex(answer))


@pytest.mark.parametrize("real", list(exchanges()), ids=lambda real: f"{real.api.name}-{real.version}")
def test_real_messages_are_read_whole_and_written_alike(real: Exchange) -> None:
    header = 4 + 8 + 2 + len("fencepost") + real.flexible
    request = decode(real.api.request, real.version, real.flexible, real.request, header)
    assert encode(request, real.version, real.flexible) == real.request[header:]
    answer = decode(real.api.response, real.version, real.flexible, real.answer, 4 + real.flexible)
    assert encode(answer, real.version, real.flexible) == real.answer[4 + real.flexible :]


def test_the_real_messages_cover_every_version_that_4_3_1_offers() -> None:
    assert {(real.api.name, real.version) for real in exchanges()} == {
        (api.name, version) for api, version in EVERY_VERSION if api.name != "ApiVersions"
    }


def golden(name: str, version: int) -> Any:
    real = next(real for real in exchanges() if (real.api.name, real.version) == (name, version))
    return decode(real.api.response, version, real.flexible, real.answer, 4 + real.flexible)


def test_what_real_answers_say() -> None:
    quorum = golden("DescribeQuorum", 2).topics[0]
    assert quorum.topic_name == "__cluster_metadata"
    assert (quorum.partitions[0].leader_id, quorum.partitions[0].leader_epoch) == (1, 1)
    assert golden("DescribeQuorum", 2).nodes[0].listeners[0].port == 19093
    assert golden("CreateTopics", 7).topics[0].error_code == 36
    assert "already exists" in golden("CreateTopics", 7).topics[0].error_message
    assert golden("DescribeConfigs", 4).results[0].configs[0].value == "1234567"  # stale: 2345678 had been acknowledged
    assert golden("Metadata", 12).topics[0].partitions[0].replica_nodes == [1]
    assert {topic.error_code for topic in golden("Metadata", 12).topics} == {0, 3}
    assert golden("ListOffsets", 7).topics[0].partitions[0].offset == 2


@pytest.mark.parametrize("version", range(4, 13))
def test_records_of_a_real_log(version: int) -> None:
    partition = golden("Fetch", version).responses[0].partitions[0]
    batches = read_batches(partition.records, 0)
    assert [(r.offset, r.epoch, r.value, r.key) for r in batches.records] == [
        (0, 0, b"one", None),
        (1, 0, b"two", None),
    ]
    assert {(r.timestamp_ms, r.producer_id, r.producer_epoch) for r in batches.records} == {(1_700_000_000_000, 9, 0)}
    assert [r.sequence for r in batches.records] == [0, 1]
    assert batches.next_offset == partition.high_watermark == 2


# Kafka's own definitions


def definitions(archive: zipfile.ZipFile, api: Api[Any, Any], kind: str) -> dict[str, Any]:
    text = archive.read(f"common/message/{api.name}{kind}.json").decode()
    found: dict[str, Any] = json.loads(re.sub(r"(?m)(^|\s)//.*$", "", text))
    return found


def span(text: str) -> tuple[int, int]:
    if text == "none":
        return 1 << 15, 0
    low, _, high = text.partition("-")
    return int(low.rstrip("+")), int(high) if high else 32767 if text.endswith("+") else int(low)


#: Fields that have another name in later releases, or in kafka-python; the bytes are the same.
RENAMED: Final = {
    "generation_id_or_member_epoch": "generation_id",
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}
#: What kafka-python reads as a set of numbers.
SAME_TYPE: Final = {"bitfield": "int32"}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def same_name(name: str) -> str:
    return RENAMED.get(name, name)


def check_fields(ours: Any, theirs: list[Any], structs: dict[str, Any], version: int, where: str) -> None:
    """Fields of this version in order; tagged fields may be unknown to us, for they may be passed over."""

    def of_version(versions: str) -> bool:
        low, high = span(versions)
        return low <= version <= high

    mine = [field for field in ours.fields.values() if field.for_version_q(version)]
    known = {field.tag for field in mine}
    real = [
        field
        for field in theirs
        if of_version(field.get("versions") or field["taggedVersions"])
        and ("tag" not in field or field["tag"] in known)
    ]
    # Tagged fields come in the order of their numbers, wherever they are defined.
    mine.sort(key=lambda field: -1 if field.tag is None else field.tag)
    real.sort(key=lambda field: field.get("tag", -1))
    assert [same_name(field.name) for field in mine] == [same_name(snake(field["name"])) for field in real], where
    for one, other in zip(mine, real, strict=True):
        place = f"{where}.{one.name}"
        assert one.tag == other.get("tag"), place
        assert one.nullable_for_version_q(version) == of_version(other.get("nullableVersions", "none")), place
        if one.is_struct() or one.is_struct_array():
            assert one.is_array() == other["type"].startswith("[]"), place
            check_fields(one, other.get("fields") or structs[other["type"].removeprefix("[]")], structs, version, place)
        else:
            assert SAME_TYPE.get(one.type_str, one.type_str) == other["type"], place


def _where_kept(release: str) -> Any:
    """The release; it is left to the long tests where its jars would have to be fetched first."""
    return pytest.param(release, marks=() if versions.JARS.are_fetched(release) else pytest.mark.long)


@pytest.mark.parametrize("release", [_where_kept(one) for one in ("3.6.0", "3.7.0", "3.9.2", "4.3.1", "4.4.0")])
def test_messages_are_what_kafka_itself_defines(release: str) -> None:
    """A version never changes once it is out, so later releases speak for 2.8 too (which has other names)."""
    (jar,) = [one for one in versions.JARS.jars(release) if one.name == f"kafka-clients-{release}.jar"]
    with zipfile.ZipFile(jar) as archive:
        for api in APIS.values():
            for kind, ours in (("Request", api.request), ("Response", api.response)):
                check_versions(api, ours, definitions(archive, api, kind), kind)


def check_versions(api: Api[Any, Any], ours: type[DataContainer], theirs: dict[str, Any], kind: str) -> None:
    assert theirs["apiKey"] == api.key
    assert span(theirs["flexibleVersions"])[0] == api.flexible
    low, high = span(theirs["validVersions"])
    structs = {s["name"]: s["fields"] for s in theirs.get("commonStructs", [])}
    for version in range(max(low, api.versions[0]), min(high, api.versions[1]) + 1):
        check_fields(layout_of(ours), theirs["fields"], structs, version, f"{api.name}{kind} v{version}")


# The library


def test_where_it_is_missing_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.systems.kafka.wire.codec.find_spec", lambda name: None)
    for system in ("kraft", "kafka-zk", "kafka-bridge"):
        releases = registry.system(system).releases
        with pytest.raises(MachineError, match="kafka-python") as missing:
            releases.resolve(releases.default)
        assert missing.value.hint == "pip install 'fencepost[kafka]'"


@pytest.mark.parametrize("real", list(exchanges()), ids=lambda real: f"{real.api.name}-{real.version}")
def test_no_piece_of_an_answer_is_one_and_nothing_may_follow_it(real: Exchange) -> None:
    answer = real.answer[4 + real.flexible :]
    for wrong in (*(answer[:length] for length in range(len(answer))), answer + b"\0"):
        with pytest.raises(MalformedMessage):
            decode(real.api.response, real.version, real.flexible, wrong)


@settings(deadline=None)
@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=300))
def test_any_bytes_are_a_message_or_malformed(which: tuple[Api[Any, Any], int], raw: bytes) -> None:
    api, version = which
    with contextlib.suppress(MalformedMessage):
        decode(api.response, version, version >= api.flexible, raw)


def test_unknown_tagged_fields_are_passed_over_and_known_ones_read() -> None:
    of_topic = ProduceResponse.TopicProduceResponse
    of_partition = of_topic.PartitionProduceResponse
    leader = of_partition.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
    partition = of_partition(index=3, current_leader=leader)
    answer = ProduceResponse(responses=[of_topic(name="t", partition_responses=[partition])])
    raw = encode(answer, 10, True)
    tags = bytes([1, 0, 9]) + struct.pack(">ii", 2, 9) + b"\0"
    assert raw.count(tags) == 1
    more = raw.replace(tags, b"\2" + tags[1:] + bytes([77, 2]) + b"xy")
    (read,) = decode(ProduceResponse, 10, True, more).responses[0].partition_responses
    assert (read.index, read.current_leader) == (3, leader)
    for wrong in (b"\1\0\x08" + tags[3:-2] + b"\0", b"\1\x4d\x05x"):
        with pytest.raises(MalformedMessage):
            decode(ProduceResponse, 10, True, raw.replace(tags, wrong))


@pytest.mark.parametrize(
    ("value", "raw"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_varints(value: int, raw: str) -> None:
    assert varint(value).hex() == raw
    assert read_varint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)
    with pytest.raises(MalformedMessage):
        read_varint(b"\xff" * 6, 0)


def test_null_where_there_must_be_a_value_is_malformed() -> None:
    one_topic = struct.pack(">ii", 0, 1)
    decode(DeleteTopicsResponse, 1, False, one_topic + struct.pack(">hh", 0, 0))
    with pytest.raises(MalformedMessage, match="null as name"):
        decode(DeleteTopicsResponse, 1, False, one_topic + struct.pack(">hh", -1, 0))
    with pytest.raises(MalformedMessage, match="null as responses"):
        decode(DeleteTopicsResponse, 1, False, struct.pack(">ii", 0, -1))


# Records

VALUES: Final = st.lists(st.binary(max_size=300), min_size=1, max_size=20)
PRODUCERS: Final = st.none() | st.builds(
    Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 40)
)


@given(VALUES, PRODUCERS, st.integers(0, 2**52), st.integers(0, 25))
def test_batches_come_back(values: list[bytes], producer: Producer | None, timestamp_ms: int, skip: int) -> None:
    raw = write_batch(values, timestamp_ms=timestamp_ms, producer=producer)
    batches = read_batches(raw, skip)
    assert [record.value for record in batches.records] == values[skip:]
    assert [record.offset for record in batches.records] == list(range(skip, len(values)))
    assert batches.next_offset == max(len(values), skip)
    if producer and batches.records:
        last = batches.records[-1]
        assert (last.producer_id, last.producer_epoch) == producer[:2]
        assert last.sequence == producer.sequence + len(values) - 1


@given(VALUES, st.data())
def test_a_changed_byte_never_passes(values: list[bytes], data: st.DataObject) -> None:
    """But for the three fields that the checksum leaves out: base offset, length and leader epoch."""
    raw = bytearray(write_batch(values, timestamp_ms=5))
    at = data.draw(st.integers(16, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedMessage):
        read_batches(bytes(raw), 0)


@given(VALUES, st.data())
def test_what_is_cut_off_is_left_for_the_next_fetch(values: list[bytes], data: st.DataObject) -> None:
    raw = write_batch(values, timestamp_ms=5)
    batches = read_batches(raw + at_offset(raw, len(values))[: data.draw(st.integers(0, len(raw) - 1))], 0)
    assert len(batches.records) == batches.next_offset == len(values)


def at_offset(batch: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + batch[8:]


def changed(batch: bytes, attributes: int, body: bytes | None = None) -> bytes:
    """The batch with other attributes, or another body too, and a checksum that fits."""
    rest = struct.pack(">h", attributes) + batch[23:61] + (batch[61:] if body is None else body)
    return batch[:8] + struct.pack(">iibI", 9 + len(rest), -1, 2, by_table(0, rest)) + rest


def test_batches_that_others_write() -> None:
    plain = write_batch([b"a", b"b"], timestamp_ms=5)
    assert [r.value for r in read_batches(changed(plain, 1, gzip.compress(plain[61:])), 0).records] == [b"a", b"b"]
    control = read_batches(changed(plain, 32) + at_offset(plain, 2), 0)
    assert [r.offset for r in control.records] == [2, 3]
    keyed = b"\0\x02\0\x02k\x02v\x02\x02h\x02x"  # timestamp delta 1, key k, value v, header h: x
    batch = changed(write_batch([b""], timestamp_ms=5), 0, bytes([len(keyed) * 2]) + keyed)
    (record,) = read_batches(batch, 0).records
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 6)
    deleted = changed(write_batch([b""], timestamp_ms=5), 0, bytes([12]) + b"\0\0\0\x01\x01\0")
    assert read_batches(deleted, 0).records[0].value is None
    appended = changed(plain, 8)  # the time is the log's, one for the whole batch
    assert {r.timestamp_ms for r in read_batches(appended, 0).records} == {5}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (changed(write_batch([b"a"], timestamp_ms=5), 4), "zstd"),
        (changed(write_batch([b"a"], timestamp_ms=5), 1), "decompressed"),
        (changed(write_batch([b"a"], timestamp_ms=5), 0, b""), "inside a record"),
        (changed(write_batch([b"a"], timestamp_ms=5), 0, b"\x40\0"), "a record of 32 bytes"),
        (changed(write_batch([b"a"], timestamp_ms=5), 0, b"\x0c\0\0\0\x01\x40a\0"), "32 bytes announced"),
        (changed(write_batch([b"a"], timestamp_ms=5), 0, b"\x10\0\0\0\x01\x02a\0\0\0"), "off"),
        (changed(write_batch([b"a"], timestamp_ms=5), 0, b"\x0e\0\0\0\x01\x02a\0z"), "longer than its 1"),
        (struct.pack(">qi", 0, 5) + bytes(50), "a batch of 5 bytes"),
        (struct.pack(">qiib", 0, 60, 0, 1) + bytes(60), "format 1"),
    ],
)
def test_a_batch_that_is_wrong_is_named(raw: bytes, why: str) -> None:
    with pytest.raises(MalformedMessage, match=re.escape(why)):
        read_batches(raw, 0)


def test_a_batch_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one"):
        write_batch([], timestamp_ms=5)


def test_the_checksum_by_its_published_vectors() -> None:
    """RFC 3720, appendix B.4."""
    vectors = {bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43, bytes(range(32)): 0x46DD794E, b"123456789": 0xE3069283}
    assert {data: by_table(0, data) for data in vectors} == vectors
    assert {data: crc32c(data) for data in vectors} == vectors


@given(st.binary(max_size=500))
def test_both_checksums_agree(data: bytes) -> None:
    assert crc32c(data) == by_table(0, data)


def test_electing_leaders_travels_as_the_protocol_says() -> None:
    # Preferred (0), all partitions (null), a time-out, no tagged fields.
    asked = encode(ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), 2, True)
    assert asked == b"\x00\x00\x00\x00\x03\xe8\x00"
    assert ELECT_LEADERS.key == 43
    answer = b"\x00\x00\x00\x00\x00\x29\x01\x00"
    assert decode(ElectLeadersResponse, 2, True, answer, 0).error_code == 41
