"""Forms of published histories: operations in JSON, compressed, without what their own tool does not need."""

import gzip
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from tests.interchange.formats.test_commands import kept, run

_ELLE: Final = """{:index 0 :type :invoke  :value [[:append 253 1] [:append 253 3]]}
{:index 1 :type :ok      :value [[:append 253 1] [:append 253 3]]}
{:index 2 :type :invoke, :value [[:append 255 8] [:r 253]]} ; two elements
{:index 3 :type :ok,     :value [[:append 255 8] [:r 253 [1 3]]]}
"""
_ELLE_CLI: Final = """[{"index":0,"process":1,"type":"invoke","value":[["append",253,1]]},
{"index":1,"process":1,"type":"ok","value":[["append",253,1]]},
{"index":2,"process":1,"type":"invoke","value":[["r",253,null]]},
{"index":3,"process":1,"type":"ok","value":[["r",253,[1]]]}]"""
_BANK: Final = """{"type":"invoke","f":"read","process":"a","time":8,"index":0}
{"type":"ok","f":"read","process":"a","time":9,"value":{"0":100,"7":0},"index":1}
{"type":"invoke","f":"transfer","value":{"from":0,"to":7,"amount":1},"process":"b","time":7,"index":6}
{"type":"info","f":"pause","value":"all","process":"nemesis","time":7,"index":7}
{"type":"ok","f":"transfer","value":{"from":0,"to":7,"amount":1},"process":"b","time":9,"index":8}
{"type":"invoke","f":"read","process":"a","time":10,"index":9}
{"type":"ok","f":"read","process":"a","time":11,"value":{"0":99,"7":1},"index":10}
"""
_CLIENTS: Final = """[{"client":1,"type":"invoke","f":"write","value":"5"},
{"client":1,"type":"ok","f":"write","value":"5"},
{"client":2,"type":"invoke","f":"read"},{"client":2,"type":"ok","f":"read","value":"5"},
{"client":2,"type":"invoke","f":"upload"},{"client":2,"type":"ok","f":"upload","value":7}]"""
#: The times say that the read came before the write, the lines say the opposite.
_PAIRS: Final = """{:time 30 :type :invoke :process 0 :f :write :value 1}
{:time 40 :type :ok :process 0 :f :write :value 1}
{:time 10 :type :invoke :process 1 :f :read}
{:time 20 :type :ok :process 1 :f :read :value nil}
"""
_INDEXES: Final = "\n".join(
    f"{{:index {index} :type {kind} :process 0 :f {f} :value {value}}}"
    for index, kind, f, value in (
        *((3, ":invoke", ":read", "nil"), (4, ":ok", ":read", "1")),
        *((1, ":invoke", ":write", "1"), (2, ":ok", ":write", "1")),
    )
)
_READ: Final = '{"type":"invoke","f":"read","process":0}'
_FORK: Final = """{:type :invoke :process 0 :f :write :value [[:w 1 1]]}
{:type :ok :process 0 :f :write :value [[:w 1 1]]}
{:type :invoke :process 0 :f :read :value [[:r 1 nil]]} {:type :ok :process 0 :f :read :value [[:r 1 1]]}"""
_CAS: Final = "\n".join(
    f"{{:type {kind} :process 0 :f {f} :value {value}}}"
    for f, asked, answered in (
        (":write", '["a" 1]', '["a" 1]'),
        (":cas", '["a" 1 2]', '["a" 1 2]'),
        (":read", '["a" nil]', '["a" 2]'),
    )
    for kind, value in ((":invoke", asked), (":ok", answered))
)


@pytest.mark.parametrize(
    ("text", "more", "code", "model", "note"),
    [
        (_ELLE, (), 0, "list-append", "operations without :process"),
        (_ELLE_CLI, (), 0, "list-append", "operations without :f are taken for transactions"),
        (_ELLE_CLI.replace("[1]", "[2]"), (), 1, "list-append", "without :f"),
        (_ELLE_CLI[1:-1].replace("},\n", "}\n"), (), 0, "list-append", "without :f"),
        (_BANK, (), 0, "bank", 'processes have names: "a" is 0, "b" is 1'),
        (_BANK, (), 0, "bank", ":time goes back, first in line 3: the order is that of the file"),
        (_CLIENTS, ("--ignore", "upload"), 0, "register", "ignored: 2 events of upload"),
        (_CLIENTS, ("--ignore", "upload"), 0, "register", "`client` names the process"),
        (_PAIRS, (), 1, "register", "the order is that of the file; --order time takes the times"),
        (_PAIRS, ("--order", "time"), 0, "register", "the order is that of the times"),
        (_INDEXES, (), 0, "register", ":index does not grow: the order is that of the indexes"),
        (_INDEXES, ("--order", "file"), 1, "register", "the order is that of the file"),
        (_FORK, (), 0, "rw-register", "operations read, write are transactions"),
        (_CAS, (), 0, "cas-register, keyed", "a cas [key old new] is taken for [key [old new]]"),
    ],
)
def test_what_is_taken_with_a_note(
    text: str, more: tuple[str, ...], code: int, model: str, note: str, tmp_path: Path, capsys: Any
) -> None:
    found, _, said = run(capsys, "check", kept(tmp_path, text, "history"), *more)
    assert found == code, said
    assert f"model {model}\n" in said
    assert note in said


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (f'[{_READ},\n {{"type":"go","f":"read","process":0}}]', (), "line 2, column 2: unknown :type"),
        (f'{_READ}\n{{"type":', (), "line 2, column 9: Expecting value"),
        (f"{_READ}\n7", (), "line 2, column 1: expected an operation"),
        (_READ.replace("invoke", "ok").replace("0", '"a"'), (), "line 1, column 1: process 0 completes with :ok what"),
        (_READ.replace("0", '0,"value":"\\ud800"'), (), "line 1, column 1: a text that is no Unicode"),
        (_CLIENTS, ("--ignore", "uplaod"), "unknown operation to ignore 'uplaod'"),
        (_FORK, ("--order", "time"), "--order time: not every operation has an integer :time"),
        (_FORK, ("--order", "tiem"), "unknown order 'tiem'"),
        ("#_ 1 " + _FORK, ("--order", "file"), "need a plain list of maps"),
        ("{:type :invoke :f :a :value 1}\n" * 2 + "{:type :ok :f :a :value 1}", (), "line 3, column 1: an operation"),
        (_PAIRS + "{:time 9 :type :go :process 1 :f :read}", (), "line 5, column 1: unknown :type :go"),
    ],
)
def test_what_is_refused(text: str, more: tuple[str, ...], said: str, tmp_path: Path, capsys: Any) -> None:
    code, _, message = run(capsys, "check", kept(tmp_path, text, "history"), *more)
    assert (code, said in message) == (254, True), message


@pytest.mark.parametrize("text", [_ELLE, _ELLE_CLI, _PAIRS])
def test_compressed(text: str, tmp_path: Path, capsys: Any) -> None:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text.encode())
    plain = run(capsys, "check", kept(tmp_path, text, "history"))[:2]
    for packed in (gzip.compress(text.encode()), sink.getvalue().to_pybytes()):
        assert run(capsys, "check", kept(tmp_path, packed, "history"))[:2] == plain
        cut = run(capsys, "check", kept(tmp_path, packed[:-9], "history"))
        assert cut[0] == 254 and "cannot be unpacked" in cut[2]
