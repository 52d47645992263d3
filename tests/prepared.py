"""What takes minutes to make on a fresh machine, made once before the clock of any test runs.

    python -m tests.prepared

Which test needs it first is left to chance otherwise, and that one would spend its time limit on a compiler. What
cannot be made here is said; the tests that need it tell what is missing, and the remedy.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Final

from fencepost.harness.base.errors import FencepostError


def _cassandra() -> None:
    """Fetch the jars and their Java, and make the start-up archive."""
    from fencepost.systems.cassandra.system import CASSANDRA

    CASSANDRA.releases.resolve(CASSANDRA.releases.default)


def _consul() -> None:
    """Compile Consul: about five minutes on two cores."""
    from fencepost.systems.consul.system import CONSUL

    CONSUL.releases.resolve(CONSUL.releases.default)


def _images() -> None:
    from fencepost.harness.runtime.containers import images
    from fencepost.harness.runtime.containers.engine.engine import connect
    from fencepost.systems.etcd.system import ETCD

    client = connect()
    try:
        for source in (
            images.of_system(ETCD.releases.image_recipe),
            images.own()["sidecar"],
            images.own()["toxiproxy"],
        ):
            images.ensure(client, source, progress=_say)
    finally:
        client.close()


def _porcupine() -> None:
    from fencepost.harness.interchange.second_opinion.porcupine import built

    built()


def _nats() -> None:
    from fencepost.systems.nats.system import NATS

    NATS.releases.resolve(NATS.releases.default)


_MADE: Final[Mapping[str, Callable[[], None]]] = {
    "images": _images,
    "Porcupine": _porcupine,
    "NATS": _nats,
    "Consul": _consul,
    "Cassandra": _cassandra,
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    for what, make in _MADE.items():
        try:
            make()
        except FencepostError as error:
            _say(f"without {what}: {error.message}")


if __name__ == "__main__":
    main()
