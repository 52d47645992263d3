"""The releases of Kafka that the other tests start are fetched, checked against their sums, and start quickly."""

from pathlib import Path

import pytest

from fencepost.harness.plugins import registry
from tests.systems.kafka.kafka_releases import USED, needs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("system", "version"), [pytest.param(*one, marks=needs(*one), id="-".join(one)) for one in USED]
)
def test_a_release_is_fetched_and_has_its_start_up_archives(system: str, version: str) -> None:
    """What takes long the first time is done here, beside tests that compute, and not in the middle of a run."""
    chosen = registry.system(system)
    found = chosen.releases.resolve(version)
    assert chosen.releases.at_hand(version)
    assert found.version == version
    assert [Path(jar).name for jar in found.paths["classpath"].split(":") if f"kafka_2.13-{version}" in jar]
    wanted = {"archive", "keeper-archive"} if system == "kafka-zk" else {"archive"}
    assert {name for name in wanted if Path(found.paths[name]).stat().st_size > 10 << 20} == wanted


def test_what_is_started_by_default_is_among_them() -> None:
    assert {(name, registry.system(name).releases.default) for name in ("kraft", "kafka-zk")} <= set(USED)
