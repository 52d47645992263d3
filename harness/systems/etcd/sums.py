"""Recording the checksums of etcd's releases, as go.sum has them."""

import json
import subprocess
import tempfile

from fencepost.harness.base.errors import MachineError
from fencepost.harness.systems.contract.recorded_sums import read_sums, record_sums
from fencepost.harness.systems.etcd.versions import MODULE, SUMS


def record(releases: list[str]) -> int:
    """Record these releases, or check the recorded ones again; returns the exit status of the command."""
    heading = f"What go.sum says of {MODULE}; written by tools/record_sums.py."
    return record_sums(SUMS, "sums", heading, releases or list(read_sums(SUMS)), _module_sum)


def _module_sum(release: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["go", "mod", "download", "-json", f"{MODULE}@v{release}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    answer = json.loads(done.stdout)
    if "Sum" not in answer:
        raise MachineError(f"etcd {release}: {answer.get('Error')}")
    return {release: answer["Sum"]}
