"""Members of groups as services in the catalog, each with a check that fails unless it is renewed in time.

A group is a service, a member one instance of it, registered with the agent that the client is connected to. The agent
counts the time to live by itself, and tells the servers what changed ("anti-entropy"). So:

- A registration, a renewal and a deregistration are answered by that agent alone. It answers also when no server hears
  of it: "we only warn because the write did succeed and anti-entropy will sync later".
- No other agent knows the instance, so only this one can renew it or end it.
- A list shows the instances of which no check fails. One check is its node's, "serfHealth": when gossip declares the
  agent failed, all its instances go, renewed or not; when gossip hears of it again, they are back.
- An instance whose time is over stays registered, and a late renewal brings it back.

Nothing refuses a second member with one id. The same instance ID would overwrite the first one on the same agent, and
be a second instance on another. So each join has an instance ID of its own, and overwrites nobody.

Source: hashicorp/consul 1.19 agent/agent_endpoint.go (AgentRegisterService, syncChanges), agent/checks/check.go
(CheckTTL), agent/local/state.go; developer.hashicorp.com/consul/docs/architecture/anti-entropy.
"""

import base64
import itertools
from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Definite, Granted, ListedMember, ReadMode, Reply, Roster
from fencepost.systems.consul.client import ConsulClient, mode_query
from fencepost.systems.consul.wire import errors
from fencepost.systems.consul.wire.messages import Instance

_NUMBERS: Final = itertools.count(1)


class CatalogClient(ConsulClient):
    """`harness.coordination.Memberships` by the catalog: a handle is an instance ID, which names its time to live."""

    async def grant(self, ttl_ms: int) -> Granted:
        """Choose an ID; nothing is sent before somebody enters with it."""
        return Granted(f"{next(_NUMBERS)}.{ttl_ms}", ttl_ms)

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        meta = {"member": member, "data": base64.b64encode(data).decode()}
        await self._calls.register(group, handle, meta, _ttl_ms(handle))
        return Reply()

    async def keep_alive(self, handle: str) -> Granted:
        await self._calls.pass_check(handle)
        return Granted(handle, _ttl_ms(handle))

    async def revoke(self, handle: str) -> Reply:
        await self._calls.deregister(handle)
        return Reply()

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        instances, _ = await self._calls.passing(group, mode_query(mode))
        return _roster(instances)

    async def watch_roster(self, group: str) -> Roster:
        instances, self._watched_index = await self._calls.passing(group, "stale")
        self._watched_group = group
        return _roster(instances)

    async def roster_changed(self, wait_s: float) -> bool:
        """Ask once, in a query that blocks until the index of the group's instances is another one."""
        if self._watched_group is None:
            raise Definite(errors.NOT_WATCHING)
        _, index = await self._calls.passing(self._watched_group, self._watched_query(wait_s))
        return index != self._watched_index


def _ttl_ms(handle: str) -> int:
    return int(handle.partition(".")[2])


def _roster(instances: Sequence[Instance]) -> Roster:
    services = (one.service for one in instances)
    members = (
        ListedMember(service.meta["member"], base64.b64decode(service.meta["data"]), service.create_index)
        for service in services
    )
    return Roster(tuple(sorted(members, key=lambda member: (member.id, member.token))))
