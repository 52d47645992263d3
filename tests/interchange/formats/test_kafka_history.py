"""Kafka's sends and polls as `jepsen.tests.kafka` writes them, with verdicts that are known."""

import pytest

from fencepost.harness.base.errors import MalformedHistory
from tests.interchange.formats.test_objects import both, judged

_ASSIGN = "2 assign [:k]"
_SENT = both("0 send [[:send :k 1]] -> [[:send :k [0 1]]]", "0 send [[:send :k 2]] -> [[:send :k [2 2]]]")


def sends(*offsets: int) -> list[str]:
    """Value 10 + offset to each of these, acknowledged, by a process each."""
    said = enumerate(offsets)
    return both(*(f"{i + 3} send [[:send :k {10 + o}]] -> [[:send :k [{o} {10 + o}]]]" for i, o in said))


def poll(process: int, *offsets: int) -> list[str]:
    pairs = " ".join(f"[{o} {10 + o}]" for o in offsets)
    return both(f"{process} poll [[:poll]] -> [[:poll {{:k [{pairs}]}}]]")


CASES: list[tuple[list[str], dict[str, int] | str]] = [
    ([*_SENT, *both(_ASSIGN, "2 poll [[:poll]] -> [[:poll {:k [[0 1] [2 2]]}]]")], "valid"),
    ([*_SENT, *both(_ASSIGN, "2 poll [[:poll]] -> [[:poll {}]]")], "unknown"),
    ([*_SENT, *both("2 poll [[:poll]] -> [[:poll {:k [[0 1] [2 3]]}]]")],
     {"inconsistent-offsets": 1, "phantom-read": 1}),
    ([*sends(0, 1), *poll(2, 0, 1), *both("1 poll [[:poll]] -> [[:poll {:k [[2 11]]}]]")], {"duplicate": 1}),
    (["0 send [[:send :k 5]]", "0 :fail", *both("2 poll [[:poll]] -> [[:poll {:k [[0 5]]}]]")], {"aborted-read": 1}),
    (["0 send [[:send :k 5]]", "0 :info", *sends(1), *both("2 poll [[:poll]] -> [[:poll {:k [[0 5]]}]]"), *poll(2, 1)],
     "valid"),
    (both("0 txn [[:send :k 5] [:poll]] -> [[:send :k [0 5]] [:poll {:k [[0 5]]}]]"), {"precommitted-read": 1}),
    # Nobody saw offset 1, and all who read on went past it.
    ([*sends(0, 1, 2), *poll(2, 0), *poll(1, 2)], {"lost-write": 1}),
    ([*sends(0, 1, 2), *poll(2, 0), *poll(1, 2), "8 poll [[:poll]]", "8 :info"], "unknown"),
    ([*sends(0, 1, 2), *poll(2, 0), *poll(1, 2), "8 poll [[:poll]]", "8 :fail"], "unknown"),
    # A consumer that was assigned the key passed over it, so no other matters.
    ([*sends(0, 1, 2), *both(_ASSIGN), *poll(2, 0), *poll(2, 2), "8 poll [[:poll]]", "8 :info"],
     {"lost-write": 1, "poll-skip": 1}),
    ([*sends(0, 1, 2), *both(_ASSIGN), *poll(2, 0), *poll(2, 2), *poll(1, 1)], {"poll-skip": 1}),
    ([*sends(0, 1, 2), *both(_ASSIGN), *poll(2, 0, 1), *poll(2, 1, 2)], {"nonmonotonic-poll": 1}),
    # Assigned anew, subscribed, or set back by a failure it may be anywhere.
    ([*sends(0, 1, 2), *both(_ASSIGN), *poll(2, 0, 1), *both(_ASSIGN), *poll(2, 0, 1, 2)], "valid"),
    ([*sends(0, 1, 2), *both("2 subscribe [:k]"), *poll(2, 0, 1), *poll(2, 0, 1, 2)], "valid"),
    ([*sends(0, 1, 2), *both(_ASSIGN), *poll(2, 0, 1), "2 poll [[:poll]]", "2 :fail", *poll(2, 0, 1, 2)], "valid"),
    # Within one poll there is no excuse.
    ([*sends(0, 1, 2), *poll(2, 0, 2), *poll(1, 1)], {"int-poll-skip": 1}),
    ([*sends(0, 1, 2), *poll(2, 0, 2, 1)], {"int-poll-skip": 1, "int-nonmonotonic-poll": 1}),
    ([*sends(0, 1), *both("2 txn [[:poll] [:poll]] -> [[:poll {:k [[0 10] [1 11]]}] [:poll {:k [[0 10]]}]]")], "valid"),
    ([*sends(0, 1), *both(_ASSIGN, "2 txn [[:poll] [:poll]] -> [[:poll {:k [[0 10] [1 11]]}] [:poll {:k [[0 10]]}]]")],
     {"int-nonmonotonic-poll": 1}),
    # Producers.
    ([*both("0 send [[:send :k 15]] -> [[:send :k [5 15]]]", "0 send [[:send :k 14]] -> [[:send :k [4 14]]]"),
      *poll(2, 4, 5)], {"nonmonotonic-send": 1}),
    ([*both("0 send [[:send :k 15]] -> [[:send :k [5 15]]]", "1 send [[:send :k 14]] -> [[:send :k [4 14]]]"),
      *poll(2, 4, 5)], "valid"),
    ([*both("0 txn [[:send :k 15] [:send :k 14]] -> [[:send :k [5 15]] [:send :k [4 14]]]"), *poll(2, 4, 5)],
     {"int-nonmonotonic-send": 1}),
    # Keys are logs of their own.
    (both("0 send [[:send :j 1]] -> [[:send :j [0 1]]]", "0 send [[:send :k 2]] -> [[:send :k [0 2]]]",
          "2 poll [[:poll]] -> [[:poll {:j [[0 1]], :k [[0 2]]}]]"), "valid"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wanted"), CASES, ids=[str(i) for i in range(len(CASES))])
def test_a_known_verdict(lines: list[str], wanted: dict[str, int] | str) -> None:
    judgement = judged(lines, "log")
    verdict = judgement.verdicts[0]
    if isinstance(wanted, str):
        assert (judgement.validity, verdict.counts) == (wanted, {}), verdict
    else:
        assert (judgement.validity, dict(verdict.counts)) == ("invalid", wanted), verdict
        assert {witness.anomaly for witness in verdict.witnesses} == set(wanted)


@pytest.mark.parametrize("value", ["5", "[[:send :k]]", "[[:poll 5]]", "[[:frobnicate :k 1]]"])
def test_what_is_refused(value: str) -> None:
    with pytest.raises(MalformedHistory, match=r"a\.edn: line 1, column 1: send"):
        judged(both(f"0 send {value}"), "log")
