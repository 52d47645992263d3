//! The order of the rooms: a file names only rooms that its own may use, and only the binding knows of Python.

use std::fs;
use std::path::{Path, PathBuf};

/// Each room with the rooms that it may use, which stand before it. A room that is missing here is refused.
const ROOMS: [(&str, &[&str]); 8] = [
    ("limits", &[]),
    ("history", &[]),
    ("edn", &[]),
    ("search", &["history", "limits"]),
    ("registers", &["search", "history", "limits"]),
    ("objects", &["search", "history", "limits"]),
    ("transactions", &["limits"]),
    ("binding", &["registers", "objects", "transactions", "edn", "search", "history", "limits"]),
];

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    entries.map(|entry| entry.expect("the entry can be read").path()).collect()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The text of a file without its comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a room holds files only");
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The name behind each `crate::`; empty where a brace follows.
fn named(code: &str) -> impl Iterator<Item = &str> {
    let name = |rest: &'_ str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    code.split("crate::").skip(1).map(move |rest| &rest[..name(rest)])
}

#[test]
fn rooms_use_only_rooms_before_them() {
    for (at, (room, may_use)) in ROOMS.iter().enumerate() {
        let before = ROOMS[..at].iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(may_use.iter().all(|other| before.contains(&other)), "{room} may use a room that stands after it");
        for file in entries(&sources().join(room)) {
            let code = code(&file);
            for other in named(&code) {
                assert!(other == *room || may_use.contains(&other), "{} uses `{other}`", file.display());
            }
            assert!(!code.contains("super::super"), "{} reaches out of its room by `super`", file.display());
            let python = ["pyo3", "numpy"].iter().any(|name| code.contains(name));
            assert!(!python || *room == "binding", "{} knows of Python", file.display());
        }
    }
}

#[test]
fn every_file_but_the_root_is_in_a_room() {
    let mut found: Vec<String> = entries(&sources())
        .iter()
        .map(|entry| entry.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let mut expected: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).chain(["lib.rs"]).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(named(&code(&sources().join("lib.rs"))).all(|room| room == "binding"), "lib.rs only registers");
}
