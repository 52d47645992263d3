#!/usr/bin/env bash
# Coverage-guided fuzzing of the native core: each target for FUZZ_S seconds (600 unless told), one after the other.
# A finding's input is left in checkers/native/fuzz/findings/. With FUZZ_KEEP=1 the seeds are made anew from all that
# was reached: each seed is one byte of length and so many bytes.
set -euo pipefail
cd "$(dirname "$0")/../checkers/native/fuzz"
rustup run nightly rustc --version >/dev/null 2>&1 ||
  { echo "fuzzing needs a nightly compiler: rustup toolchain install nightly --profile minimal" >&2; exit 254; }
passes="-Cpasses=sancov-module"
for argument in level=4 inline-8bit-counters pc-table trace-compares; do
  passes+=" -Cllvm-args=-sanitizer-coverage-$argument"
done
target=x86_64-unknown-linux-gnu
RUSTFLAGS="$passes" rustup run nightly cargo build -q --profile fuzz --features engine --target "$target" --target-dir target
mkdir -p findings
for name in edn registers transactions; do
  corpus=corpus/$name
  mkdir -p "$corpus"
  python3 seeds.py unpack "seeds/$name.bin" "$corpus"
  echo "== $name"
  "target/$target/fuzz/$name" "$corpus" -max_len=200 -max_total_time="${FUZZ_S:-600}" -timeout=20 -rss_limit_mb=4096 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="findings/$name-"
  if [ "${FUZZ_KEEP:-}" = 1 ]; then
    rm -rf "least/$name" && mkdir -p "least/$name"
    "target/$target/fuzz/$name" -merge=1 -max_len=200 -verbosity=0 "least/$name" "$corpus"
    python3 seeds.py pack "least/$name" "seeds/$name.bin"
  fi
done
