"""etcd's write-ahead log, written here by the format: what is read back, and how it ends where its bytes are wrong."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.crc32c import crc32c
from fencepost.harness.history import NodeLog
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.write_ahead_log import log_of

FIRST, SECOND = "0000000000000000-0000000000000000.wal", "0000000000000001-0000000000000005.wal"


class Writer:
    """Segments as etcd writes them; `starts` are where the records of the last one begin."""

    def __init__(self) -> None:
        self.segments, self.crc = {FIRST: b""}, 0
        self.cut(FIRST)

    def cut(self, name: str) -> "Writer":
        self.segments[name], self.starts = b"", list[int]()
        self._frame(rpc.WalRecord(type=4, crc=self.crc))
        return self.add(1, rpc.HardState(term=7))

    def add(self, kind: int, message: rpc.RaftEntry | rpc.HardState | rpc.WalSnapshot) -> "Writer":
        data = message.SerializeToString()
        self.crc = crc32c(data, self.crc)
        self._frame(rpc.WalRecord(type=kind, crc=self.crc, data=data))
        return self

    def _frame(self, record: rpc.WalRecord) -> None:
        name, body = max(self.segments), record.SerializeToString()
        self.starts.append(len(self.segments[name]))
        filled = -len(body) % 8
        length = len(body) | ((0x80 | filled) << 56 if filled else 0)
        self.segments[name] += struct.pack("<Q", length) + body + bytes(filled)

    def entry(self, index: int, term: int, **request: object) -> "Writer":
        data = rpc.InternalRaftRequest(**request).SerializeToString()  # type: ignore[arg-type]  # as the test says
        return self.add(2, rpc.RaftEntry(term=term, index=index, data=data))

    def state(self, commit: int) -> "Writer":
        return self.add(3, rpc.HardState(term=1, vote=9 << 60, commit=commit))

    def read(self, **instead: bytes) -> NodeLog:
        log = log_of({**self.segments, **instead}, "n1")
        assert log is not None
        return log


def put(value: str, lease: int = 0) -> rpc.PutRequest:
    return rpc.PutRequest(key=b"a", value=value.encode(), lease=lease)


def sample() -> Writer:
    """Two segments, and a tail that a later leader replaced."""
    log = Writer().entry(1, 1).entry(2, 1, put=put("1")).entry(3, 1, put=put("2")).entry(4, 1, put=put("3  ")).state(2)
    log.entry(3, 2).entry(4, 2, put=put("4")).state(3).cut(SECOND)
    return log.entry(5, 2, put=put("5")).entry(6, 2, put=put("6")).state(5)


def kinds(log: NodeLog) -> str:
    return " ".join(
        f"{e.offset}/{e.epoch}:{e.type}" + "".join(v for _, v in e.fields.get("wrote", ())) for e in log.entries
    )


def test_what_was_written_is_read() -> None:
    log = sample().read()
    assert kinds(log) == "1/1:other 2/1:write1 3/2:other 4/2:write4 5/2:write5 6/2:write6"
    assert (log.start_offset, log.commit, log.torn, log.damaged) == (0, 5, False, "")
    late = log_of({SECOND: sample().segments[SECOND]}, "n1")
    assert late is not None
    assert (late.start_offset, kinds(late)) == (5, "5/2:maybe5 6/2:maybe6")
    sent = sample().add(5, rpc.WalSnapshot(index=9, term=2)).entry(10, 2, put=put("7")).read()
    assert (sent.start_offset, kinds(sent)) == (10, "10/2:maybe7")
    path = Writer().entry(1, 1, put=rpc.PutRequest(key=b"metastore/w0", value=b"1")).read()
    assert path.entries[0].fields["wrote"] == [["w0", "1"]]


def test_comparisons_are_followed_as_far_as_they_can_be() -> None:
    kind = rpc.Compare
    absent, there = (
        kind(result=r, target=kind.CREATE, key=b"a", create_revision=0) for r in (kind.EQUAL, kind.GREATER)
    )
    two = kind(result=kind.EQUAL, target=kind.VALUE, key=b"a", value=b"2")
    at = kind(result=kind.EQUAL, target=kind.MOD, key=b"a", mod_revision=7)

    def txn(compare: rpc.Compare, value: str) -> dict[str, object]:
        return {"txn": rpc.TxnRequest(compare=[compare], success=[rpc.RequestOp(request_put=put(value))])}

    asked = [txn(there, "1"), txn(absent, "2"), txn(absent, "3"), txn(two, "4"), txn(two, "5"), txn(at, "6")]
    asked += [txn(two, "7"), {"put": put("2")}, txn(two, "8"), {"put": put("2", lease=3)}, txn(two, "9")]
    asked += [{"delete_range": rpc.DeleteRangeRequest(key=b"", range_end=b"\0")}, txn(absent, "1")]
    asked += [{"alarm": rpc.AlarmRequest(action=1, alarm=1)}, {"put": put("2")}]
    log = Writer()
    for index, request in enumerate(asked, start=1):
        log.entry(index, 2, **request)
    said = "refused write refused write refused maybe maybe write write maybe maybe delete write other maybe"
    assert " ".join(entry.type for entry in log.read().entries) == said


def contents(log: NodeLog) -> set[tuple[int, int, int]]:
    return {(e.offset, e.epoch, e.fields["content"]) for e in log.entries}


WHOLE = sample()
WRITTEN = contents(WHOLE.read()).union(
    *(contents(WHOLE.read(**{FIRST: WHOLE.segments[FIRST][:end]})) for end in range(len(WHOLE.segments[FIRST])))
)


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_log_that_is_cut_off_anywhere_ends_there(name: str) -> None:
    whole = WHOLE.segments[name]
    ends = [len(whole[:start].rstrip(b"\0")) for start in (*WHOLE.starts, len(whole))]
    for end in range(len(whole)):
        log, left = WHOLE.read(**{name: whole[:end]}), len(whole[:end].rstrip(b"\0"))
        assert contents(log) <= WRITTEN
        if name == SECOND:
            assert log.torn_bytes == (0 if left in ends else left - max(s for s in WHOLE.starts if s < left)), end
        elif left < len(whole.rstrip(b"\0")):
            assert log.damaged, end


@given(st.sampled_from([FIRST, SECOND]), st.floats(0, 1, exclude_max=True), st.integers(1, 255), st.binary())
def test_wrong_bytes_invent_no_entry_and_are_told(name: str, place: float, bits: int, more: bytes) -> None:
    data = bytearray(WHOLE.segments[name])
    data[int(place * len(data))] ^= bits
    log = WHOLE.read(**{name: bytes(data)})
    assert contents(log) <= WRITTEN
    assert log.damaged or log.torn or contents(log) == contents(WHOLE.read())
    assert contents(WHOLE.read(**{name: more})) <= WRITTEN


def test_what_follows_wrong_bytes_tells_damage_from_a_torn_write() -> None:
    for at, start in enumerate(WHOLE.starts):
        data = bytearray(WHOLE.segments[SECOND])
        data[start + 12] ^= 1
        log = WHOLE.read(**{SECOND: bytes(data)})
        if at < len(WHOLE.starts) - 2:
            assert log.damaged.startswith(f"{SECOND}, byte {start}: "), at
        else:
            assert (log.damaged, log.torn_bytes) == ("", len(data.rstrip(b"\0")) - start)
