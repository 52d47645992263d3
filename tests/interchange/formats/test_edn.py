"""The native reader of EDN: what every form becomes, and where what is wrong stands."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.interchange.formats.edn import edn_text, is_edn, plain, read_events

_HEAD = "{:type :invoke, :process 0, :f :read, :value "


def form(text: str) -> Any:
    """The form that `text` is, read as an operation's value."""
    columns = read_events(io.BytesIO(f"{_HEAD}{text}}}".encode()), "a.edn")
    return columns.forms[columns.value[0]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-17", -17),
        ("+5", 5),
        ("5N", 5),
        ("0x1F", 31),
        ("-0x10", -16),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", 2**63),
        ("-123456789012345678901234567890N", -123456789012345678901234567890),
        ("1.5", 1.5),
        ("-2.5e-3", -0.0025),
        ("1E3", 1000.0),
        ("-0.0", 0.0),
        ('""', ""),
        (r'"a\"b\\c\n\t\r\u00e9"', 'a"b\\c\n\t\ré'),
        (r'"\ud83d\ude00"', "😀"),
        ('"zwei\nZeilen, ümläut"', "zwei\nZeilen, ümläut"),
        ("[1 [2] []]", [1, [2], []]),
        ("[1, 2 ; a remark ] \n 3]", [1, 2, 3]),
        ("[1 #_2 #_ [3 4] 5]", [1, 5]),
        ("[#_ #_ 1 2 3]", [3]),
        ("[1 #_(a (b)) ]", [1]),
    ],
)
def test_what_python_has_a_type_for(text: str, wanted: Any) -> None:
    found = form(text)
    assert found == wanted and type(found) is type(wanted)


@pytest.mark.parametrize(
    ("text", "kind", "name", "as_json"),
    [
        (":a", "keyword", "a", ":a"),
        (":jepsen.etcd/read-only?", "keyword", "jepsen.etcd/read-only?", ":jepsen.etcd/read-only?"),
        ("foo/bar", "symbol", "foo/bar", "foo/bar"),
        ("-", "symbol", "-", "-"),
        (r"\a", "character", "a", "a"),
        (r"\newline", "character", "\n", "\n"),
        (r"\u00e9", "character", "é", "é"),
        (r"\o101", "character", "A", "A"),
        (r"\(", "character", "(", "("),
        (r"\é", "character", "é", "é"),
        ("2/4", "ratio", "1/2", "1/2"),
        ("-3/9", "ratio", "-1/3", "-1/3"),
        ("1.50M", "decimal", "1.50M", "1.50M"),
        ("3M", "decimal", "3M", "3M"),
        ("(1 2)", "list", "", [1, 2]),
        ("#{3 1 2}", "set", "", [1, 2, 3]),
        ("{:b 1, :a 2}", "map", "", {":a": 2, ":b": 1}),
        ("{1 2, [3] 4}", "map", "", {"1": 2, "[3]": 4}),
        ("#:etcd{:a 1, :x/b 2, :_/c 3}", "map", "", {":c": 3, ":etcd/a": 1, ":x/b": 2}),
        ('#inst "2026-11-22T00:00:00Z"', "tagged", "inst", {"#inst": "2026-11-22T00:00:00Z"}),
        ("#jepsen.history.Op{:index 0}", "tagged", "jepsen.history.Op", {"#jepsen.history.Op": {":index": 0}}),
        (
            '#object[clojure.core$f 0x5e91993f "f@5e9"]',
            "tagged",
            "object",
            {"#object": ["clojure.core$f", 0x5E91993F, "f@5e9"]},
        ),
        ("#a #b 1", "tagged", "a", {"#a": {"#b": 1}}),
    ],
)
def test_what_only_edn_has(text: str, kind: str, name: str, as_json: Any) -> None:
    found = form(text)
    assert is_edn(found)
    assert (found.kind, found.text) == (kind, name)
    assert plain(found) == as_json


def test_an_integer_that_reduces_is_one() -> None:
    assert form("4/2") == 2


@pytest.mark.parametrize(("text", "wanted"), [("##Inf", "##Inf"), ("##-Inf", "##-Inf"), ("##NaN", "##NaN")])
def test_doubles_that_json_lacks_are_text(text: str, wanted: str) -> None:
    assert plain(form(text)) == wanted


def test_equal_values_are_one_form() -> None:
    columns = read_events(io.BytesIO(f"{_HEAD}[5N #{{2 1}} 2/4 {{:b 1 :a 2}}]}}".encode()), "a.edn")
    again = read_events(io.BytesIO(f"{_HEAD}[5 #{{1 2}} 1/2 {{:a 2 :b 1}}]}}".encode()), "a.edn")
    two = f"{_HEAD}[5N #{{2 1}} 2/4]}}\n{{:type :ok :process 0 :f :read :value [5 #{{1 2}} 1/2]}}"
    both = read_events(io.BytesIO(two.encode()), "a.edn")
    assert both.value[0] == both.value[1]
    assert plain(columns.forms[columns.value[0]]) == plain(again.forms[again.value[0]])


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("]", 46, "`]` where `}` was expected, for line 1, column 1"),
        ("[1 2)", 50, "`)` where `]` was expected, for line 1, column 46"),
        ("012", 46, "does not begin with 0"),
        ("1a", 46, "`1a` is no number"),
        ("1/0", 46, "`1/0` is no number"),
        ("1.2.3", 46, "is no number"),
        ("1e999", 46, "too large for a double"),
        ("9" * 5000, 46, "an integer of 5000 digits; at most 4000 are read"),
        ("::a", 46, "`::a` is no keyword"),
        (":", 46, "`:` is no keyword"),
        (r"\bogus", 46, r"`\bogus` is no character"),
        (r'"\q"', 46, r"`\q` in a string"),
        (r'"\u12"', 46, "four hexadecimal digits"),
        (r'"\ud83d"', 46, "four hexadecimal digits"),
        ("#{1 1}", 46, "a set that holds 1 twice"),
        ("{:a 1 :a 2}", 46, "a map with the key :a twice"),
        ("{:a}", 46, "a key and no value: :a"),
        ("#5", 46, "begins no value"),
        ("##Foo", 46, "expected ##Inf, ##-Inf or ##NaN"),
        ("[#foo]", 47, "the tag #foo has no value"),
        ("[#_]", 47, "`#_` has no value to discard"),
        ("^meta", 46, "begins no value of EDN"),
        ("[é ü }", 51, "`}` where `]` was expected"),
        ("[" * 300 + "]" * 300, 246, "nested deeper than 200"),
        ("#_" * 3 + "[" * 300, None, "nested deeper than 200"),
        ("\x01", 46, "the byte 0x01 begins no value"),
    ],
)
def test_what_is_wrong_has_its_place(text: str, column: int | None, said: str) -> None:
    with pytest.raises(MalformedHistory) as caught:
        form(text)
    assert said in caught.value.message
    if column is not None:
        assert f"a.edn: line 1, column {column}: " in caught.value.message


def test_discards_cannot_exhaust_the_stack() -> None:
    for nest in ("#_[" * 100_000, "#_" * 100_000, "#a " * 100_000, "{" * 100_000):
        with pytest.raises(MalformedHistory):
            form(nest)


@pytest.mark.parametrize(
    ("data", "line", "column", "said"),
    [
        (b"\xff", 1, 1, "0xff is not UTF-8"),
        (b"; fine\n; b\xc3\xa9 \xff\n", 2, 6, "0xff is not UTF-8"),
        (b'{:type "\n\xc3\xa9\xff"}', 2, 2, "0xff is not UTF-8"),
        (b"{:type :\xf0\x9f", 1, 9, "0xf0 is not UTF-8"),
        (b"; cut \xf0\x9f", 1, 7, "0xf0 is not UTF-8"),
        (b"{:type :invoke", 1, 15, "the file ends before the `}` for line 1, column 1: it is truncated"),
        (b'{:type "inv', 1, 8, "not closed: the file is truncated"),
        (b"{:type", 1, 2, "the key :type has no value"),
        (b"[\n{:type :invoke :process 0 :f :read}\n", 3, 1, "before the `]` for line 1, column 1"),
        (b"5", 1, 1, "expected an operation, {:type ...}, found 5"),
        (b"[] 7", 1, 4, "something follows the history's end"),
        (b"#foo{:a 1}", 1, 1, "expected an operation"),
        (b"{\\", 1, 2, "the file ends within a character"),
    ],
)
def test_what_is_no_text_or_no_history(data: bytes, line: int, column: int, said: str) -> None:
    with pytest.raises(MalformedHistory) as caught:
        read_events(io.BytesIO(data), "a.edn")
    if "no value" in said:
        assert "truncated" in caught.value.message or said in caught.value.message
        return
    assert f"a.edn: line {line}, column {column}: " in caught.value.message
    assert said in caught.value.message


class _Drops:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    def read(self, size: int = -1) -> bytes:
        given, self._data = self._data[: self._size], self._data[self._size :]
        return given


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_cut_between_two_reads_is_the_same(size: int) -> None:
    text = f'; ü\n{_HEAD}[:käse "a\\\\\\"ü\\u00e9" #{{1.5 \\newline}} #inst "x" 1/3 #_ 4 nil]}}\n'.encode()
    whole = read_events(io.BytesIO(text), "a.edn")
    drops = read_events(_Drops(text, size), "a.edn")  # type: ignore[arg-type]
    assert plain(whole.forms[whole.value[0]]) == plain(drops.forms[drops.value[0]])
    assert (whole.line.tolist(), whole.column.tolist()) == (drops.line.tolist(), drops.column.tolist()) == ([2], [1])


def test_an_exception_of_the_stream_comes_through() -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise InterruptedError("pulled out")

    with pytest.raises(InterruptedError, match="pulled out"):
        read_events(Broken(), "a.edn")  # type: ignore[arg-type]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def _without_negative_zero(value: Any) -> Any:
    """EDN has one zero of doubles here."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, list):
        return [_without_negative_zero(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_negative_zero(item) for key, item in value.items()}
    return value


@given(_JSON)
def test_what_is_written_is_read_again(value: Any) -> None:
    found = plain(form(edn_text(value)))
    assert repr(_sorted(found)) == repr(_sorted(_without_negative_zero(value)))


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, dict):
        return sorted((key, _sorted(item)) for key, item in value.items())
    return value


@given(st.binary(max_size=200) | st.text(alphabet='{}[]()#_:\\"; \n/0123456789.eN+-anilu', max_size=80).map(str.encode))
def test_whatever_the_bytes_the_answer_is_columns_or_a_place(data: bytes) -> None:
    for given_bytes in (data, _HEAD.encode() + data, _HEAD.encode() + data + b"}"):
        said = ""
        try:
            columns = read_events(io.BytesIO(given_bytes), "a.edn")
        except MalformedHistory as error:
            said = error.message
        assert "a.edn: line " in said or len(columns.line) == len(columns.value)
