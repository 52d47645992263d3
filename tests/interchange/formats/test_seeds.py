"""Inputs that were answered wrongly once or could be, and some mutated anew: the fuzzer asked for a moment."""

import random
from pathlib import Path

import pytest

from tests.interchange.formats.fuzz import _TEXTS, SEEDS, mutate, try_one


@pytest.mark.parametrize("path", sorted(SEEDS.glob("*")), ids=lambda path: path.name)
def test_what_was_found_stays_mended(path: Path) -> None:
    assert try_one(path.read_bytes())


def test_a_few_mutated_inputs() -> None:
    draw, texts = random.Random(11), [text.encode() for text in _TEXTS]
    refused = sum(try_one(mutate(draw.choice(texts), texts, draw)) == "refused refused" for _ in range(300))
    assert 100 < refused < 300


def test_no_input_mutated_is_read() -> None:
    assert [try_one(text.encode()) for text in _TEXTS] == [
        "cas-register refused",
        "register refused",
        "set refused",
        "register refused",
        "list-append refused",
        "register refused",
        "refused cas-register",
    ]
