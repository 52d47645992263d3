"""Typed options: what is parsed, what is refused with which words, and what `list` shows of them."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import Duration, Options, about, describe, one_of, parse, plain, seconds
from fencepost.harness.base.quantities import Share


class Pace(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class Some(Options, frozen=True, kw_only=True):
    keys: Annotated[int, about("how many keys")] = 5
    rate: Annotated[float, about("operations a second")] = 150.0
    pace: Annotated[Pace, about("how fast")] = Pace.SLOW
    values: Annotated[Literal["unique", "small"], about("what is written")] = "unique"
    every: Annotated[Duration, about("pause between two")] = seconds(2.5)
    fenced: Annotated[bool, about("whether tokens are checked")] = True
    to: Annotated[str | None, about("the other release")] = None
    again: Annotated[Duration | None, about("time after which it is done again")] = None
    acks: Annotated[Literal["all", "1"], about("who answers")] = "all"
    part: Annotated[float, about("part of the whole", least=0, most=1)] = 0.5
    pause: Annotated[Duration | None, about("length of a pause", above=0)] = None
    share: Annotated[Share, about("part of the whole", least=0.05, most=1)] = Share(0.5)
    for_: Annotated[Duration, about("how long", above=0, most=seconds(60))] = seconds(5)
    late: Annotated[Duration | UnsetType, about("how late")] = UNSET


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"keys": 3}, "keys", 3),
        ({"keys": "3"}, "keys", 3),
        ({"rate": 7}, "rate", 7.0),
        ({"rate": "7.5"}, "rate", 7.5),
        ({"pace": "fast"}, "pace", Pace.FAST),
        ({"values": "small"}, "values", "small"),
        ({"every": "250ms"}, "every", Duration(250_000_000)),
        ({"fenced": "no"}, "fenced", False),
        ({"fenced": "false"}, "fenced", False),
        ({"fenced": False}, "fenced", False),
        ({"to": "3.5.1"}, "to", "3.5.1"),
        ({}, "to", None),
        ({"again": "4s"}, "again", Duration(4_000_000_000)),
        ({"again": "never"}, "again", None),
        ({"acks": 1}, "acks", "1"),
        ({"share": "10%"}, "share", Share(0.1)),
        ({"for": "7s"}, "for_", Duration(7_000_000_000)),
        ({}, "late", UNSET),
        ({"late": "1s"}, "late", Duration(1_000_000_000)),
    ],
)
def test_a_value_is_parsed_by_the_type_of_its_field(given: dict[str, Any], field: str, value: object) -> None:
    parsed = getattr(parse("some", given, Some()), field)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"key": 3}, "unknown some option 'key'", "every, fenced, for, keys"),
        ({"keys": "many"}, "some option keys: expected a whole number, got 'many'", ""),
        ({"keys": True}, "some option keys: expected a whole number, got True", ""),
        ({"keys": 3.5}, "some option keys: expected a whole number, got 3.5", ""),
        ({"pace": "brisk"}, "some option pace: 'brisk' is not a choice", "slow, fast"),
        ({"values": ""}, "some option values: '' is not a choice", "unique, small"),
        ({"every": "250"}, "some option every: '250' is not a duration", "with a unit"),
        ({"every": "never"}, "some option every: 'never' is not a duration", "with a unit"),
        ({"again": "seldom"}, "some option again: 'seldom' is not a duration", "with a unit"),
        ({"keys": "\uff15"}, "some option keys: expected a whole number, got '\uff15'", ""),
        ({"every": "\uff15s"}, "some option every: '\uff15s' is not a duration", "with a unit"),
        ({"rate": "nan"}, "some option rate: expected a number, got nan", ""),
        ({"rate": "-inf"}, "some option rate: expected a number, got -inf", ""),
        ({"part": "1.5"}, "some option part: 1.5 is too large", "give at least 0, at most 1"),
        ({"part": -1}, "some option part: -1 is too small", "give at least 0, at most 1"),
        ({"pause": "0s"}, "some option pause: 0s is too small", "give more than 0"),
        ({"for_": "7s"}, "unknown some option 'for_'", "for, keys"),
        ({"for": "2m"}, "some option for: 2m is too large", "give more than 0s, at most 1m"),
        ({"share": "1%"}, "some option share: 1% is too small", "give at least 5%, at most 100%"),
        ({"late": "never"}, "some option late: 'never' is not a duration", "with a unit"),
        ({"fenced": "perhaps"}, "some option fenced: expected yes or no, got 'perhaps'", ""),
    ],
)
def test_a_wrong_one_is_refused_with_what_there_is(given: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse("some", given, Some())
    assert raised.value.message == message
    assert hint in (raised.value.hint or "")


def test_plain_values_parse_back_to_the_same_options() -> None:
    some = parse("some", {"every": "1m30s", "pace": "fast", "to": "3.4.23"}, Some())
    assert (plain(some)["every"], plain(some)["again"], plain(some)["for"]) == ("90s", "never", "5s")
    assert "late" not in plain(some)
    assert parse("some", plain(some), Some(again=seconds(4))) == some


def test_every_option_is_described() -> None:
    rows = {row.name: row for row in describe(Some())}
    assert " ".join(rows) == "keys rate pace values every fenced to again acks part pause share for late"
    assert (rows["every"].kind, rows["every"].default) == ("a duration", "2500ms")
    assert (rows["pace"].choices, rows["values"].choices) == (("slow", "fast"), ("unique", "small"))
    assert (rows["for"].default, rows["late"].default, rows["share"].default) == ("5s", "", "50%")
    assert (rows["fenced"].default, rows["to"].default, rows["again"].default) == ("yes", "", "never")
    assert all(row.about for row in rows.values())


def test_a_choice_that_depends_on_the_system() -> None:
    one_of("register: reads", "sync", ("plain", "sync"))
    with pytest.raises(UsageError, match="register: reads='strong' is not a choice"):
        one_of("register: reads", "strong", ("plain", "sync"))


@pytest.mark.parametrize(("ns", "text"), [(0, "0s"), (1, "1ns"), (1500, "1500ns"), (2_000_000, "2ms"), (10**9, "1s")])
def test_a_duration_is_written_as_it_is_read(ns: int, text: str) -> None:
    assert str(Duration(ns)) == text
    assert parse("some", {"every": text}, Some()).every == ns
