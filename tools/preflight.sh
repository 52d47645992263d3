#!/usr/bin/env bash
# Said before set-up begins: what this machine lacks, and the remedy. Nothing is installed here.
set -u
python=${1:-python3}
missing=0
need() { # need COMMAND WHY REMEDY
  if ! command -v "$1" >/dev/null 2>&1; then
    printf 'missing: %s (%s)\n  remedy: %s\n' "$1" "$2" "$3" >&2
    missing=1
  fi
}
need "$python" "Python 3.11 or newer" "apt install python3 python3-venv, or make PYTHON=/path/to/python"
if command -v "$python" >/dev/null 2>&1; then
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    printf 'too old: %s is Python %s; 3.11 or newer is needed\n  remedy: make PYTHON=/path/to/python3.11\n' \
      "$python" "$("$python" -c 'import platform; print(platform.python_version())')" >&2
    missing=1
  fi
  if ! command -v uv >/dev/null 2>&1 && ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    printf 'missing: the venv module\n  remedy: apt install python3-venv, or install uv\n' >&2
    missing=1
  fi
fi
need cc "a C compiler, which Rust links with" "apt install gcc"
if ! command -v cargo >/dev/null 2>&1; then
  printf 'note: no Rust on the PATH; maturin will fetch a toolchain (650 MB) into your cache folder\n' >&2
  printf '  instead: apt install rustc-web cargo-web (Debian 12), or rustup\n' >&2
fi
if [ "$(uname -s)" != Linux ]; then
  printf 'this is not Linux; the lab needs network namespaces\n  remedy: a Linux machine, container or virtual machine\n' >&2
  missing=1
fi
exit "$missing"
