"""Guarantees as files: those of every system are well-formed, and a mistake is named with its file, line and key."""

import re
import tomllib
from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.guarantees import SHARED, read_guarantees, source_of
from fencepost.harness.history import DiskEffect, Effects, Stops
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import MINORITY_DAMAGED, Condition, Guarantee, KnownIssue, Standing

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(path for folder in ("harness", "systems") for path in (ROOT / folder).rglob("*guarantee*.toml"))
PROMISED = 'standing = "promised", source = "its manual"'


def stated(folder: Path, text: str, version: str = "1.0") -> dict[str, Guarantee]:
    path = folder / "guarantees.toml"
    path.write_text(text)
    return {guarantee.name: guarantee for guarantee in read_guarantees(path, version)}


@pytest.mark.parametrize("name", registry.systems())
def test_every_guarantee_of_a_system_has_a_text_a_standing_and_a_source(name: str) -> None:
    system = registry.system(name)
    for version in ("", *system.releases.known()):
        promises = system.promises(version)
        assert len({guarantee.name for guarantee in promises}) == len(promises) > 0
        for guarantee in promises:
            assert re.fullmatch(r"[a-z0-9-]+", guarantee.name)
            assert re.fullmatch(r"[A-Z](?!.*[{}]).*\.", guarantee.text), guarantee
            assert re.fullmatch(r"(?!.*[{}]).*[^.]", guarantee.source), guarantee


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_wrapped_and_names_no_source_or_issue_in_vain(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 120
    content = tomllib.loads(text)
    assert [name for name in content.get("sources", {}) if f"{{{name}}}" not in text] == []
    used = {name for entry in content["guarantees"].values() for name in entry.get("issues", ())}
    assert set(content.get("issues", {})) == used


@pytest.mark.parametrize(
    "path", [path for path in FILES if path != SHARED.resolve()], ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_text_is_said_again_that_is_shared(path: Path) -> None:
    shared = {name: entry["text"] for name, entry in tomllib.loads(SHARED.read_text())["guarantees"].items()}
    own = {name: entry.get("text") for name, entry in tomllib.loads(path.read_text())["guarantees"].items()}
    assert [name for name, text in own.items() if text and " ".join(text.split()) == shared.get(name)] == []


def test_a_text_is_shared_and_some_of_them_bring_a_standing(tmp_path: Path) -> None:
    guarantees = stated(tmp_path, f"[guarantees]\nterms-grow = {{ {PROMISED} }}\nsomebody-leads-again = {{}}\n")
    assert guarantees["terms-grow"].text.startswith("Each leader's term")
    assert guarantees["somebody-leads-again"].standing is Standing.MEASURED
    assert source_of(tmp_path / "guarantees.toml", "terms-grow") == "its manual"


def test_sources_issues_and_conditions_are_filled_in(tmp_path: Path) -> None:
    text = """
        [sources]
        paper = "Paper (2014)"
        rule = "{paper}, 8"
        [issues.late]
        text = "{paper} was\n late"
        before = ["1.2"]
        needs = { stops = "possible" }
        [[conditions]]
        loss = "unsynced"
        [guarantees]
        own = { standing = "relied-upon", source = "{rule}", text = '''
            Both
            lines.''', issues = ["late"], known_issue = "see {rule}" }
    """.replace("was\n", "was\\n")
    assert stated(tmp_path, text)["own"] == Guarantee(
        name="own",
        standing=Standing.RELIED_UPON,
        text="Both lines.",
        source="Paper (2014), 8",
        known_issue="see Paper (2014), 8",
        issues=(KnownIssue(text="Paper (2014) was late", before=("1.2",), needs=Effects(stops=Stops.POSSIBLE)),),
        conditions=(MINORITY_DAMAGED, Condition(loss=DiskEffect.UNSYNCED)),
    )


@pytest.mark.parametrize(("version", "standing"), [("1.1", "measured"), ("1.2", "promised"), ("main", "promised")])
def test_earlier_releases_may_promise_less(tmp_path: Path, version: str, standing: str) -> None:
    text = f'[guarantees]\nterms-grow = {{ {PROMISED}, earlier = {{ before = ["1.2"], standing = "measured" }} }}\n'
    guarantee = stated(tmp_path, text, version)["terms-grow"]
    assert (guarantee.standing, guarantee.source) == (standing, "its manual")


def test_an_entry_changes_what_an_included_file_says(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    stated(
        tmp_path / "more", f'[guarantees]\nown = {{ {PROMISED}, text = "It holds." }}\nterms-grow = {{ {PROMISED} }}\n'
    )
    own = 'includes = ["more/guarantees.toml"]\n[guarantees]\nown = { standing = "measured" }\n'
    guarantees = stated(tmp_path, own)
    assert [*guarantees] == ["own", "terms-grow"]
    assert (guarantees["own"].standing, guarantees["own"].text) == (Standing.MEASURED, "It holds.")
    assert guarantees["terms-grow"].standing is Standing.PROMISED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[guarantees]\nown = { standing = "sworn" }', "line 2: guarantees, own, standing: invalid enum value 'sworn'"),
        ('[guarantees]\nterms-grow = { standing = "promised" }', "line 2: guarantees, terms-grow: 'source' is missing"),
        ('[guarantees]\nterms-grow = { source = "x" }', "line 2: guarantees, terms-grow: 'standing' is missing"),
        (f"[guarantees]\nmine = {{ {PROMISED} }}", "line 2: guarantees, mine: 'text' is missing"),
        ('[guarantees]\nown = { know_issue = "x" }', "line 2: guarantees, own, know_issue: unknown key"),
        ('[guarantees]\nown = { source = "{x}" }', "line 2: guarantees, own, source: no source 'x'"),
        ('[guarantees]\nown = { issues = ["x"] }', "line 2: guarantees, own, issues: no issue 'x'"),
        (
            '[issues.x]\ntext = "x"\nneeds = { stop = "certain" }\n[guarantees]',
            "line 3: issues, x, needs: names no effect",
        ),
        ('[issues.x]\ntext = "x"\nuntil = "1"\n[guarantees]', "line 3: issues, x, until: unknown key"),
        ('[[conditions]]\nloss = "kept"\ncopy = "x"\n[guarantees]', "line 3: conditions 1, copy: unknown key"),
        ("[sources]", "'guarantees' is missing"),
        ("[guarantees", "guarantees.toml: "),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        stated(tmp_path, text + "\n")
    assert str(tmp_path / "guarantees.toml") in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path}/guarantees.toml: No such file")):
        read_guarantees(tmp_path / "guarantees.toml", "")
