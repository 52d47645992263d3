"""The containers as a `Provider`: a cluster of real servers on Docker or Podman, which faults treat like the lab."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import FencepostError, MachineError, Refusal, UsageError
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.containers.cluster import NODES_MAX, NOTE, Containers, say
from fencepost.harness.runtime.containers.engine import engine as engines
from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.provider import NO_NEEDS, Check, Need, Needs, Placement, Say, Served


class ContainersProvider:
    """Containers; see `harness.runtime.provider.Provider`."""

    name: Final = "containers"
    about: Final = "containers of Docker or Podman; the images that you ship, or ours"
    in_namespaces: Final = False

    def refuse(self, placement: Placement) -> Refusal | None:
        if not 1 <= placement.nodes <= NODES_MAX:
            return Refusal(f"a cluster has 1 to {NODES_MAX} nodes, not {placement.nodes}", "give fewer --nodes")
        return None

    def why_not(self, need: Need) -> Refusal | None:
        match need:
            case Need.TRACE:
                from fencepost.harness.runtime.containers.checks import why_untraceable

                return why_untraceable()
            case Need.SHAPE:
                from fencepost.harness.runtime.containers.checks import why_unshaped

                return why_unshaped()
            case Need.FILES:
                return Refusal("the files of a container cannot be changed from here", "use --runtime lab")
            case Need.FREEZE | Need.STREAMS:
                return None

    def checks(self) -> list[Check]:
        from fencepost.harness.runtime.containers.checks import all_checks

        return all_checks()

    def refuse_if_impossible(self, placement: Placement, needs: Needs = NO_NEEDS) -> Placement:
        client = engines.connect()
        try:
            facts = engines.facts(client)
        finally:
            client.close()
        freezing = sorted(fault for fault, wanted in needs.items() if Need.FREEZE in wanted)
        if freezing and not facts.can_pause:
            raise MachineError(
                f"{freezing[0]} is not possible with {facts}: it cannot freeze containers",
                hint=f"leave out {freezing[0]}, or use an engine with cgroup version 2 or one that runs as root",
            )
        return replace(placement, streams=placement.streams or any(Need.STREAMS in wanted for wanted in needs.values()))

    def resolve(self, system: Served, version: str, placement: Placement, say: Say) -> Artifacts:
        from fencepost.harness.runtime.containers import images
        from fencepost.harness.runtime.containers.given_image import image_facts, present, refuse_other_system

        recipe = system.image_recipe
        if recipe is None and not placement.image:
            raise UsageError(
                "there is no image of this system", hint="use --runtime lab, or give an image of your own with --image"
            )
        client = engines.connect()
        try:
            if recipe is None or placement.image:
                facts = present(client, placement.image, say)
                refuse_other_system(facts, recipe.name if recipe else "")
            else:
                reference = images.ensure(client, images.of_system(recipe), version=version, progress=say)
                facts = image_facts(client, reference)
            return system.in_image(facts)
        finally:
            client.close()

    async def open(
        self, folder: Path, placement: Placement, listeners: Mapping[str, int], artifacts: Artifacts
    ) -> Containers:
        client = await asyncio.to_thread(engines.connect)
        facts = await asyncio.to_thread(engines.facts, client)
        with asking("removing what dead runs left", MachineError):
            for left in await asyncio.to_thread(ownership.sweep, client):
                say(left)
        return await Containers.open(client, facts, folder, placement, listeners, artifacts.paths["image"])

    def sweep(self, folder: Path | None) -> list[str]:
        if folder is None:
            return self._sweep_all()
        note = folder / NOTE
        if not note.exists():
            return []
        record = json.loads(note.read_text(encoding="utf-8"))
        try:
            client = engines.connect(str(record["engine"]))
            with asking("removing what the run left"):
                left = ownership.sweep(client, str(record["run"]), late=True)
            client.close()
        except FencepostError as error:
            command = ownership.removal(record["run"])
            return [
                f"containers of run {record['run']} could not be removed ({error.message}); remove them with: {command}"
            ]
        if not left:
            note.unlink()
        return left

    def _sweep_all(self) -> list[str]:
        try:
            client = engines.connect()
        except engines.NoEngine:
            return []
        except MachineError as error:
            return [f"leftovers of earlier runs cannot be looked for: {error.message}; {error.hint}"]
        try:
            with asking("removing what dead runs left"):
                return ownership.sweep(client)
        finally:
            client.close()


CONTAINERS: Final = ContainersProvider()
