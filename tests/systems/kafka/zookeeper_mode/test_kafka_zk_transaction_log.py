"""ZooKeeper's transaction log on disk: real records, records made by hand, torn ends, and what Kafka meant by them."""

import io
import tarfile
import zlib
from pathlib import Path
from struct import pack
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.harness.results.reader import keep_logs, read_logs
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from fencepost.systems.kafka.zookeeper_mode.transaction_log import log_of
from fencepost.systems.zookeeper.transaction_log import MalformedLog, read_file, read_files
from fencepost.systems.zookeeper.transaction_log import log_of as of_store

NAME: Final = "log.100000001"
HEAD: Final = pack(">4siq", b"ZKLG", 2, 0)
REAL: Final = HEAD + b"".join(
    bytes.fromhex(line)
    for line in Path(__file__).with_name("kafka_zk_transaction_log.txt").read_text().splitlines()
    if not line.startswith("#")
)
DIGEST: Final = pack(">iq", 2, 77)
CREATE, DELETE, SET, CHECK, MULTI, CREATE2, ERROR = 1, 2, 5, 13, 14, 15, -1
#: What Kafka 3.9.2 writes of a token, with other times.
TOKEN: Final = (
    b'{"owner":"User%3Ax8","tokenRequester":"User%3Atoken-maker","renewers":["User%3Atoken-maker"],'
    b'"issueTimestamp":5,"maxTimestamp":20,"expiryTimestamp":9,"tokenId":"E_28","version":3}'
)
#: Of a topic whose second partition is being moved from broker 4 to broker 6.
TOPIC: Final = (
    b'{"removing_replicas":{"1":[4]},"partitions":{"0":[5,4],"1":[5,6,4]},"topic_id":"abc","adding_replicas":{"1":[6]},'
    b'"version":3}'
)
ASSIGNED: Final = {
    "topic_id": "abc",
    "replicas": {"0": [5, 4], "1": [5, 6, 4]},
    "adding_replicas": {"1": [6]},
    "removing_replicas": {"1": [4]},
}
OPEN: Final = pack(">ii", 1, 31) + pack(">i5s", 5, b"world") + pack(">i6s", 6, b"anyone")


def text(value: bytes | str | None) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return pack(">i", -1) if raw is None else pack(">i", len(raw)) + raw


def made(path: str, data: bytes | None = b"") -> bytes:
    return text(path) + text(data) + OPEN + b"\0" + pack(">i", 1)


def put(path: str, data: bytes, version: int = 1) -> bytes:
    return text(path) + text(data) + pack(">i", version)


def many(*parts: tuple[int, bytes]) -> bytes:
    return pack(">i", len(parts)) + b"".join(pack(">i", op) + text(body) for op, body in parts)


def record(zxid: int, op: int, body: bytes, *, session: int = 0x10, digest: bytes = DIGEST) -> bytes:
    data = pack(">qiqqi", session, 1, zxid, 1000 + zxid, op) + body + digest
    return pack(">qi", zlib.adler32(data), len(data)) + data + b"B"


def file_of(*records: bytes, room: int = 64) -> bytes:
    return HEAD + b"".join(records) + bytes(room)


def only(op: int, body: bytes, **more: Any) -> LogEntry:
    log = log_of({NAME: file_of(record(7, op, body, **more))}, "z1")
    assert log is not None
    (entry,) = log.entries
    return entry


def real() -> NodeLog:
    log = log_of({NAME: REAL + bytes(1000)}, "z1")
    assert log is not None
    return log


def of(kind: str) -> list[dict[str, Any]]:
    return [entry.fields for entry in real().entries if entry.type == kind]


def test_a_real_log_is_read_whole() -> None:
    log = real()
    assert (log.node, log.start_offset, log.torn) == ("z1", 0, False)
    offsets = [entry.offset for entry in log.entries]
    assert offsets == sorted(offsets)
    assert {entry.epoch for entry in log.entries} == {1}
    assert [(f["node"], f["controller_epoch"], f["version"]) for f in of("election")] == [("b1", 1, 1), ("b2", 2, 2)]
    owners = {f["session"]: f["node"] for f in of("registration")}
    assert sorted(owners.values()) == ["b1", "b2", "b3"]
    assert [owners[f["session"]] for f in of("election")] == ["b1", "b2"]
    (written,) = of("partition-state")
    assert (written["topic"], written["partition"], written["controller_epoch"], written["checked_version"]) == (
        *("k0", 0),
        *(1, 1),
    )
    assert [f["name"] for f in of("topic")] == ["k0", "deposed-0"]
    assert [(f["resource_name"], f["name"]) for f in of("config")] == [("k6", "retention.bytes")]
    assert "/controller" in [f["path"] for f in of("delete")]


def test_what_was_refused_keeps_its_codes_whichever_form_the_server_wrote() -> None:
    refused = of("refused")
    assert sorted({(f["multi"], tuple(f["errors"])) for f in refused}) == [
        (False, (-110,)),
        (False, (-101,)),
        (True, (-110, -2)),
        (True, (-103, -2)),
        (True, (0, -101)),
    ]
    # The one controller that was deposed: its first operation was the check of /controller_epoch.
    (fenced,) = (f for f in refused if f["errors"][0] == -103)
    assert fenced["session"] == of("election")[0]["session"]
    # One server had logged the operations of this multi as they were asked, another had renamed them before.
    as_asked = only(MULTI, many((CHECK, put("/controller", b"")), (ERROR, pack(">i", -101))))
    renamed = only(MULTI, many((ERROR, put("/controller", b"")), (ERROR, pack(">i", -101))))
    assert as_asked == renamed


def row(op: int, body: bytes, kind: str, **fields: Any) -> tuple[int, bytes, str, dict[str, Any]]:
    return op, body, kind, fields


TOKENS: Final = "/delegation_token/tokens/E_28"
MADE_TOKEN: Final = {"token_id": "E_28", "owner": "User:x8", "issue_timestamp": 5, "expiration_timestamp": 9}
T1: Final = "/brokers/topics/t1"
EPOCH_4: Final = (CHECK, text("/controller_epoch") + pack(">i", 4))
STATE: Final = b'{"controller_epoch":3,"leader":4,"version":1,"leader_epoch":2,"isr":[4,5]}'
IN_STATE: Final = {"controller_epoch": 3, "leader": 4, "leader_epoch": 2, "isr": [4, 5], "version": 1}
ACLS: Final = b'{"version":1,"acls":[{"principal":"User:u","permissionType":"Allow","operation":"Read","host":"*"}]}'
BLOCKS: Final = "/latest_producer_id_block"
BYTES_7: Final = b'{"version":1,"config":{"retention.bytes":"7"}}'


@pytest.mark.parametrize(
    ("op", "body", "kind", "fields"),
    [
        row(-10, pack(">i", 2000), "session", timeout_ms=2000),
        row(CREATE, made(TOKENS, TOKEN), "delegation-token", **MADE_TOKEN),
        row(SET, put(TOKENS, TOKEN), "delegation-token", **MADE_TOKEN),
        row(DELETE, text(TOKENS), "delete", path=TOKENS),
        row(-11, pack(">i", 2) + text("/c") + text("/b/4"), "session-closed", deleted=["/c", "/b/4"]),
        row(-11, pack(">i", 0), "session-closed", deleted=[]),
        row(ERROR, pack(">i", -110), "refused", multi=False, errors=[-110]),
        row(CREATE, made(T1, TOPIC), "topic", name="t1", content=ASSIGNED),
        row(CREATE2, made(T1, TOPIC), "topic", name="t1", content=ASSIGNED),
        row(19, text(T1) + text(b"") + OPEN + pack(">i", 1), "topic", name="t1"),
        row(21, text(T1) + text(b"") + OPEN + pack(">iq", 1, 9), "topic", name="t1"),
        row(SET, put(T1, TOPIC), "set", path=T1, content=ASSIGNED),
        *(
            row(SET, put(path, data), "set", path=path, content=content)
            for path, data, content in (
                ("/config/brokers/<default>", b'{"version":1,"config":{"a":"1"}}', {"config": {"a": "1"}}),
                ("/config/users/u%20x", b'{"version":1,"config":{"q":"2.0"}}', {"config": {"q": "2.0"}}),
                ("/config/users/u/clients/<default>", b'{"version":1,"config":{}}', {"config": {}}),
                ("/kafka-acl/Topic/t1", ACLS, {"acls": ["Allow User:u Read from *"]}),
                (BLOCKS, b'{"broker":4,"block_start":"1000","block_end":"1999"}', {"next_producer_id": 2000}),
                (BLOCKS, b'{"broker":-1,"block_start":"2000","block_end":"2999"}', {"next_producer_id": 2000}),
            )
        ),
        row(CREATE, made("/admin/delete_topics/t1"), "remove-topic", name="t1"),
        row(CREATE, made(f"{T1}/partitions", None), "create", path=f"{T1}/partitions"),
        row(DELETE, text("/controller"), "delete", path="/controller"),
        row(SET, put("/controller_epoch", b"8"), "epoch-raised", controller_epoch=8),
        row(20, text("/x"), "delete", path="/x"),
        row(7, text("/x") + OPEN + pack(">i", 1), "operation 7", path="/x"),
        row(SET, put("/config/topics/k", BYTES_7), "config", resource_name="k", name="retention.bytes", value="7"),
        row(CREATE, made("/config/topics/k0", b'{"config":{}}'), "configs", resource_name="k0", settings={}),
        row(
            MULTI,
            many(EPOCH_4, (SET, put(f"{T1}/partitions/0/state", STATE))),
            "partition-state",
            **{"topic": "t1", "partition": 0, **IN_STATE, "checked_version": 3},
        ),
        row(
            MULTI,
            many((CREATE, made("/controller", b'{"brokerid":5}')), (SET, put("/controller_epoch", b"3", 3))),
            "election",
            **{"node": "b2", "broker": 5, "controller_epoch": 3, "version": 3},
        ),
        row(
            MULTI,
            many((CREATE, made("/brokers/ids/6")), (SET, put("/brokers/ids/6", b"{}"))),
            "registration",
            node="b3",
            broker=6,
        ),
        row(MULTI, many(EPOCH_4, (DELETE, text("/x"))), "delete", path="/x", checked_version=3),
        row(MULTI, many((DELETE, text("/x")), (DELETE, text("/y"))), "multi", changes=["delete /x", "delete /y"]),
    ],
)
def test_what_each_transaction_says(op: int, body: bytes, kind: str, fields: dict[str, Any]) -> None:
    entry = only(op, body, session=-5)
    assert (entry.offset, entry.epoch, entry.type) == (7, 0, kind)
    common = {"session": "0xfffffffffffffffb", "time_ms": 1007}
    assert {name: value for name, value in entry.fields.items() if name != "crc32"} == {**fields, **common}
    assert ("crc32" in entry.fields) is (kind != "refused")
    # Before 3.6 there is no digest, and the closing of a session says nothing.
    assert only(op, b"" if op == -11 else body, session=-5, digest=b"").type == kind


def test_equal_transactions_are_equal_whatever_their_digest() -> None:
    body = put("/x", b"1")
    assert only(SET, body) == only(SET, body, digest=pack(">iq", 2, 78)) == only(SET, body, digest=b"")
    assert only(SET, body) != only(SET, put("/x", b"2"))


# -- ends, gaps, damage --------------------------------------------------------------------------------------------


WHOLE: Final = (record(7, DELETE, text("/a")), record(8, DELETE, text("/b")))


def zxids(data: bytes, *, may_be_torn: bool = True) -> tuple[list[int], bool]:
    transactions, torn = read_file(data, NAME, may_be_torn=may_be_torn)
    return [transaction.zxid for transaction in transactions], torn > 0


def test_behind_the_last_record_there_are_zeros_or_nothing() -> None:
    assert zxids(file_of(*WHOLE), may_be_torn=False) == ([7, 8], False)
    assert zxids(file_of(*WHOLE, room=0), may_be_torn=False) == ([7, 8], False)
    assert zxids(HEAD, may_be_torn=False) == ([], False)
    assert zxids(bytes(100), may_be_torn=False) == ([], False)


@pytest.mark.parametrize("room", [0, 64])
def test_a_write_that_was_cut_off_ends_the_log(room: int) -> None:
    last = WHOLE[1]
    for cut in range(1, len(last)):
        data = HEAD + WHOLE[0] + last[:cut] + bytes(room)
        if last[:cut].strip(b"\0"):
            assert zxids(data) == ([7], True), cut
            with pytest.raises(MalformedLog, match="byte"):
                zxids(data, may_be_torn=False)


def test_damage_before_a_whole_record_is_no_torn_write() -> None:
    damaged = bytearray(file_of(*WHOLE))
    damaged[len(HEAD) + 30] ^= 1
    with pytest.raises(MalformedLog, match=r"log\.100000001, byte 16: a record whose checksum"):
        zxids(bytes(damaged))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"ZKSN" + HEAD[4:] + WHOLE[0], "not a transaction log"),
        (pack(">4siq", b"ZKLG", 3, 0) + WHOLE[0], "not a transaction log of version 2"),
        (file_of(record(7, 99, b"")), "operation 99 is not known"),
        (file_of(record(7, DELETE, text("/a") + b"more")), "bytes behind operation 2"),
        (file_of(record(7, SET, pack(">i", 99))), "ends early"),
        (file_of(record(7, DELETE, text(b"\xff"))), "byte 16"),
    ],
)
def test_what_is_no_transaction_log_is_said_so(data: bytes, said: str) -> None:
    with pytest.raises(MalformedLog, match=said):
        read_file(data, NAME, may_be_torn=True)


def test_files_are_read_in_the_order_of_their_zxids_and_only_the_last_may_be_torn() -> None:
    first, second = file_of(record(0x9F, DELETE, text("/a"))), file_of(record(0x100, DELETE, text("/b")))
    assert [t.zxid for t in read_files({"log.100": second, "log.9f": first}).transactions] == [0x9F, 0x100]
    assert read_files({"log.100": HEAD + WHOLE[0][:20], "log.9f": first}).torn_bytes == 20
    assert read_files({"log.100": second, "log.9f": HEAD + WHOLE[0][:20]}).damaged.startswith("log.9f, byte 16: ")
    # The same transaction may be logged twice; two of one zxid may not.
    assert len(read_files({"log.7": file_of(*WHOLE), "log.8": file_of(WHOLE[1])}).transactions) == 2
    other = file_of(record(8, DELETE, text("/c")))
    assert "two transactions have zxid 0x8" in read_files({"log.7": file_of(*WHOLE), "log.8": other}).damaged


#: With a write and a refusal of a key-value store in it.
STORED: Final = file_of(
    record(7, CREATE, made("/fencepost/s/5")), record(8, SET, put("/fencepost/a", b"3")), *WHOLE[1:]
)


def stored(data: bytes) -> NodeLog:
    log = of_store({NAME: data}, "z1")
    assert log is not None
    return log


def test_writes_of_a_key_value_store_are_told_by_key_and_value() -> None:
    refused = record(9, MULTI, many((ERROR, pack(">i", 0)), (ERROR, pack(">i", -103))))
    log = stored(STORED[: -64 - len(WHOLE[1])] + refused)
    said = [("write", [["s/5", ""]]), ("write", [["a", "3"]]), ("refused", None)]
    assert [(entry.type, entry.fields.get("wrote")) for entry in log.entries] == said


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255), st.integers(0, 300))
def test_wrong_bytes_invent_no_transaction_and_are_told(place: float, bits: int, end: int) -> None:
    data = bytearray(STORED)
    data[int(place * len(data))] ^= bits
    for log in (stored(bytes(data)), stored(bytes(data[:end])), stored(STORED[:end])):
        assert set(map(repr, log.entries)) <= set(map(repr, stored(STORED).entries))
    log = stored(bytes(data))
    assert log.torn_bytes or log.damaged or log == stored(STORED)


@pytest.mark.parametrize(
    ("snapshots", "start"),
    [
        ((), 0),
        (("snapshot.0",), 0),
        (("snapshot.100000000",), 0),
        (("snapshot.100000003",), 0),
        # It was sent a state and did not log what led to it.
        (("snapshot.100000009",), 0x10000000A),
        (("snapshot.100000003", "snapshot.200000000"), 0x200000001),
    ],
)
def test_a_log_is_whole_where_it_holds_what_every_snapshot_ends_with(snapshots: tuple[str, ...], start: int) -> None:
    records = [record((1 << 32) + i, DELETE, text("/a")) for i in range(1, 5)]
    log = log_of({NAME: file_of(*records), **dict.fromkeys(snapshots, b"")}, "z1")
    assert log is not None
    assert log.start_offset == start


# -- out of a run's folder -----------------------------------------------------------------------------------------


def archive(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_logs_are_kept_beside_the_data_and_read_back(tmp_path: Path) -> None:
    archive(tmp_path / "nodes/z1/data.tar.gz", {f"z1/version-2/{NAME}": REAL, "z1/version-2/snapshot.0": b"x"})
    archive(tmp_path / "nodes/z2/data.tar.gz", {f"z2/version-2/{NAME}": b"ZKLGrubbish"})
    archive(tmp_path / "nodes/b1/data.tar.gz", {"b1/meta.properties": b"version=0"})
    (problem,) = keep_logs(tmp_path, KAFKA_ZK.read_log)
    assert "z2" in problem
    assert read_logs(tmp_path) == {"z1": real()}
