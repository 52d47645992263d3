"""Simulated etcd and ZooKeeper that answer with their numbers: correct, or with one bug.

Replicas apply the same writes, some of them late. Clients see ok, fail and info; a write of unknown outcome has
happened, or has not, or will.
"""

import random
from typing import Any

import msgspec

from fencepost.checkers.storage.kv.acts import Dialect
from fencepost.checkers.storage.kv.etcd import ETCD
from fencepost.harness.history import Event, History, OpEvent, Outcome

#: Bugs that a store can have, each named as what it shows.
ETCD_BUGS = (
    "lost-write",
    "stale-read",
    "duplicate-revision",
    "revision-went-back",
    "wrong-version",
    "cas-on-wrong-revision",
)
#: Of transactions over several keys, with what they show.
TXN_BUGS = {"torn-transaction": "torn-transaction", "wrong-compare": "wrong-compare", "another-revision": "lost-write"}
ZOOKEEPER_BUGS = (
    "lost-write",
    "duplicate-revision",
    "revision-went-back",
    "wrong-version",
    "cas-on-wrong-version",
    "session-went-back",
    "stale-after-sync",
    "write-to-nothing",
)


class Version(msgspec.Struct, frozen=True):
    made: int
    value: int
    created: int
    version: int


class Store:
    """The states of the store, one for each position from the first on; `position` is the newest."""

    def __init__(self, dialect: Dialect, first: int) -> None:
        self.dialect = dialect
        self.first = first
        self.states: dict[int, dict[str, Version]] = {first: {}}
        self.position = first

    def put(self, key: str, value: int, step: int = 1) -> int:
        state = dict(self.states[self.position])
        at = self.position + step
        old = state.get(key)
        first = self.dialect.first_version
        state[key] = Version(at, value, old.created if old else at, old.version + 1 if old else first)
        self._append(at, state)
        return at

    def delete(self, key: str, step: int = 1) -> int:
        state = dict(self.states[self.position])
        del state[key]
        at = self.position + step
        self._append(at, state)
        return at

    def apply(self, asks: list[list[Any]], step: int = 1, torn: bool = False) -> list[Any]:
        """What the operations of a Txn are answered; `torn`: the last write is not done."""
        state, at = dict(self.states[self.position]), self.position + step
        replies: list[Any] = []
        writes = [ask for ask in asks if ask[0] == "put" or (ask[0] == "delete" and ask[1] in state)]
        for ask in asks:
            old = state.get(ask[1])
            missing = torn and ask is writes[-1]
            if ask[0] == "get":
                replies.append(old)
            elif ask[0] == "delete":
                replies.append({"deleted": int(old is not None)})
                if not missing:
                    state.pop(ask[1], None)
            else:
                replies.append(None)
                if not missing:
                    version = Version(at, ask[2], old.created if old else at, old.version + 1 if old else 1)
                    state[ask[1]] = version
        if writes:
            self._append(at, state)
        return replies

    def _append(self, at: int, state: dict[str, Version]) -> None:
        for place in range(self.position + 1, at):
            self.states[place] = self.states[self.position]
        self.states[at] = state
        self.position = at


def _holds(here: Version | None, target: str, key: str, result: str, number: int) -> bool:
    if here is None and target == "value":
        return False
    found = 0
    if here is not None:
        found = {
            "mod-revision": here.made,
            "create-revision": here.created,
            "version": here.version,
            "value": here.value,
        }[target]
    return {"=": found == number, "!=": found != number, "<": found < number, ">": found > number}[result]


class Client(msgspec.Struct):
    """One process: what it has open, as it was invoked, and the reply once it is known."""

    process: int
    session: int
    seen: int = 0
    told: int = 0
    f: str = ""
    key: str = ""
    value: Any = None
    done: tuple[Outcome, Any] | None = None
    synced: int = 0
    acted: bool = False


class Simulated:
    """One history: `told` is the fraction of created and version fields that replies carry."""

    def __init__(
        self,
        dialect: Dialect,
        rng: random.Random,
        *,
        steps: int,
        clients: int = 3,
        keys: str = "xy",
        values: int = 0,
        told: float = 1.0,
        unknown: float = 0.1,
        first: int = 1,
        sparse: bool = False,
        headers: float = 1.0,
        bug: str = "",
        txns: float = 0.0,
    ) -> None:
        self.txns = txns
        self.bug, self.fired, self.ready = bug, False, rng.randrange(steps)
        self.dialect, self.rng = dialect, rng
        self.store = Store(dialect, first)
        self.events: list[Event] = []
        self.clients = [Client(i, i) for i in range(clients)]
        self.next_process = clients
        self.keys, self.values, self.told, self.unknown = keys, values, told, unknown
        self.sparse, self.headers = sparse, headers
        self.fresh = 0
        self.late: list[Client] = []
        self.acknowledged = first
        self.steps = 0
        for _ in range(steps):
            self.steps += 1
            self._step()

    @property
    def history(self) -> History:
        return History(self.events)

    def _fires(self, bug: str, shows: bool = True) -> bool:
        """Whether the bug shows itself now, which it does once."""
        if bug != self.bug or self.fired or not shows or self.steps < self.ready:
            return False
        self.fired = True
        return True

    def _step(self) -> None:
        if self.late and self.rng.random() < 0.1:
            self._act(self.late.pop(self.rng.randrange(len(self.late))))
        client = self.rng.choice(self.clients)
        if not client.f:
            self._invoke(client)
        elif not client.acted and client.done is None:
            if self._writes(client) and self.rng.random() < self.unknown:
                client.done = Outcome.INFO, None
                if self.rng.random() < 0.7:
                    self.late.append(msgspec.structs.replace(client))
            else:
                client.done = self._act(client)
            client.acted = True
        else:
            self._complete(client)

    def _writes(self, client: Client) -> bool:
        return client.f not in ("read", "sync")

    def _invoke(self, client: Client) -> None:
        rng = self.rng
        names = ["read", "read", "read", "write", "write", "cas", "create", "delete"]
        client.f = (
            "txn"
            if self.txns and rng.random() < self.txns
            else rng.choice([*names, *([] if self.dialect.current else ["sync"])])
        )
        client.key = "" if client.f in ("sync", "txn") else rng.choice(self.keys)
        self.fresh += 1
        new = self.fresh if not self.values else 1 + rng.randrange(self.values)
        here = self.store.states[self.store.position].get(client.key)
        match client.f:
            case "write" | "create":
                client.value = new
            case "txn":
                client.value = self._ask(new)
            case "cas":
                client.value = self._compare(new, here)
            case "read":
                client.value = {self.dialect.sign: True} if rng.random() < 0.2 else None
            case _:
                client.value = None
        client.synced = self.acknowledged
        client.done, client.acted = None, False
        self._event(client, Outcome.INVOKE, client.value)

    def _compare(self, new: int, here: Version | None) -> Any:
        if here is None or self.rng.random() < 0.4:
            return [here.value if here else 1, new]
        if self.bug.startswith("cas") and not self.fired and self.steps >= self.ready:
            name, was = ("mod-revision", here.made) if self.dialect is ETCD else ("version", here.version)
            return {"value": new, name: was + 1}
        if self.dialect is ETCD and self.rng.random() < 0.6:
            return {"value": new, "mod-revision": here.made}
        return {"value": new, "version": here.version}

    def _ask(self, new: int) -> dict[str, Any]:
        """A Txn: up to two compares, and up to three operations in each branch."""
        rng, request = self.rng, dict[str, Any]()
        compares = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            key = rng.choice(self.keys)
            here = self.store.states[self.store.position].get(key)
            target = rng.choice(("mod-revision", "create-revision", "version", "value"))
            number = {
                "mod-revision": here.made if here else 0,
                "create-revision": here.created if here else 0,
                "version": here.version if here else 0,
                "value": here.value if here else new,
            }[target]
            result = rng.choice(("=", "=", "=", "!=") if target == "value" else ("=", "=", "=", "!=", "<", ">"))
            near = max(number + rng.choice((-1, 1)), 0) if rng.random() < 0.3 else number
            compares.append([target, key, result, near])
        request["compare"] = compares
        for branch in ("success", "failure"):
            keys = rng.sample(self.keys, min(len(self.keys), rng.choice((1, 2))))
            does = [rng.choice(("put", "put", "get", "delete")) for _ in keys]
            request[branch] = [[d, k, new] if d == "put" else [d, k] for d, k in zip(does, keys, strict=True)]
            if rng.random() < 0.3:
                request[branch].append(["get", rng.choice(self.keys)])
        return request

    def _txn(self, request: dict[str, Any], step: int) -> dict[str, Any]:
        store = self.store
        state = store.states[store.position]
        held = all(_holds(state.get(key), *compare) for compare in request["compare"] for key in [compare[1]])
        held = held != self._fires("wrong-compare", bool(request["compare"]))
        asks = request["success" if held else "failure"]
        puts = [ask for ask in asks if ask[0] == "put"]
        torn = self._fires("torn-transaction", len(puts) > 1 and puts[-1] is asks[-1])
        replies = store.apply(asks, step, torn=torn)
        olds = [at for at in store.states if store.states[at] != store.states[store.position]]
        gets = [i for i, ask in enumerate(asks) if ask[0] == "get" and not puts]
        if olds and gets and self.bug == "another-revision":
            old = store.states[olds[-1]].get(asks[gets[0]][1])
            if old != replies[gets[0]] and self._fires("another-revision"):
                replies[gets[0]] = old
        told = [
            {"value": r.value, "mod-revision": r.made, **self._stat(r)} if isinstance(r, Version) else r
            for r in replies
        ]
        return {"succeeded": held, "revision": store.position, "responses": told}

    def _act(self, client: Client) -> tuple[Outcome, Any]:
        """What the store does, and its reply."""
        store, names = self.store, self.dialect
        step = self.rng.choice((1, 1, 2)) if self.sparse else 1
        here = store.states[store.position].get(client.key)
        match client.f:
            case "sync":
                client.seen = max(client.seen, client.synced)
                return Outcome.OK, None
            case "txn":
                return Outcome.OK, self._txn(client.value, step)
            case "read":
                return Outcome.OK, self._read(client)
            case "create" if here is not None:
                return Outcome.FAIL, None
            case "write" if here is None and names.write_needs and not self._fires("write-to-nothing"):
                return Outcome.FAIL, None
            case "delete" if here is None:
                if names is ETCD:
                    return Outcome.OK, {"deleted": 0, names.number: store.position}
                return Outcome.FAIL, None
            case "cas" if not self._matches(client.value, here) and not self._accepts(client.value, here):
                return Outcome.FAIL, None
        if client.f == "delete":
            at = store.delete(client.key, step)
            reply: dict[str, Any] = {names.number: at}
        else:
            value = client.value
            new = value["value"] if isinstance(value, dict) else value[1] if isinstance(value, list) else value
            before = store.position, store.states[store.position]
            at = store.put(client.key, new, step)
            reply = {names.number: at, **self._stat(store.states[at][client.key])}
            if self._fires("lost-write"):
                store.states[at] = before[1]
            if self._fires("duplicate-revision", before[0] > store.first):
                reply[names.number] = before[0]
            if self._fires("revision-went-back", client.synced > store.first):
                reply[names.number] = client.synced - 1
            if "version" in reply and self._fires("wrong-version", "version" in reply):
                reply["version"] += 1
        client.seen = at
        return Outcome.OK, reply

    def _accepts(self, value: Any, here: Version | None) -> bool:
        """The bug of a compare-and-set that does not look."""
        condition = "mod-revision" if self.dialect is ETCD else "version"
        bug = "cas-on-wrong-revision" if self.dialect is ETCD else "cas-on-wrong-version"
        return self._fires(bug, here is not None and isinstance(value, dict) and condition in value)

    def _matches(self, value: Any, here: Version | None) -> bool:
        if here is None:
            return False
        if isinstance(value, list):
            return bool(value[0] == here.value)
        return bool(
            value.get("mod-revision", here.made) == here.made and value.get("version", here.version) == here.version
        )

    def _read(self, client: Client) -> dict[str, Any]:
        names, store = self.dialect, self.store
        signed = bool(client.value)
        if names.current:
            least = store.position if not signed else self.rng.randint(store.first, store.position)
        else:
            least = self.rng.randint(max(client.seen, client.synced if signed else 0, store.first), store.position)
            client.seen = least
        if not signed and self._fires("stale-read", client.synced > store.first):
            least = client.synced - 1
        if self._fires("session-went-back", client.told > store.first):
            least = client.told - 1
        if signed and self._fires("stale-after-sync", client.synced > store.first):
            least = client.synced - 1
        here = store.states[least].get(client.key)
        header = {names.number: least} if names.current or self.rng.random() < self.headers else {}
        if here is None:
            return {"value": None, **header}
        return {"value": here.value, names.made: here.made, **header, **self._stat(here)}

    def _stat(self, version: Version) -> dict[str, Any]:
        stat: dict[str, Any] = {}
        if self.rng.random() < self.told:
            stat[self.dialect.created] = version.created
        if self.rng.random() < self.told:
            stat["version"] = version.version
        return stat

    def _complete(self, client: Client) -> None:
        assert client.done is not None
        outcome, reply = client.done
        if outcome is Outcome.OK and self._writes(client) and "deleted" not in reply and client.f != "txn":
            self.acknowledged = max(self.acknowledged, reply[self.dialect.number])
        if outcome is Outcome.OK and isinstance(reply, dict):
            client.told = max(client.told, reply.get(self.dialect.number, 0))
        self._event(client, outcome, reply if outcome is Outcome.OK else client.value)
        client.f = ""
        if outcome is Outcome.INFO:
            client.process, client.session = self.next_process, self.next_process
            client.seen = client.told = 0
            self.next_process += 1

    def bend(self) -> None:
        """Change one number of one reply."""
        replies = [i for i, e in enumerate(self.events) if type(e) is OpEvent and e.type is Outcome.OK and e.value]
        if not replies:
            return
        at = self.rng.choice(replies)
        event = self.events[at]
        assert type(event) is OpEvent
        if event.f == "txn":
            self._bend_txn(at, event)
            return
        name = self.rng.choice([n for n, v in event.value.items() if v is not None and n != "deleted"] or [""])
        if name:
            least = int(name not in ("version", "value") and (name != self.dialect.number or event.f != "read"))
            value = {**event.value, name: max(least, event.value[name] + self.rng.choice((-2, -1, 1, 2)))}
            self.events[at] = msgspec.structs.replace(event, value=value)

    def _bend_txn(self, at: int, event: OpEvent) -> None:
        reply = dict(event.value)
        told = [i for i, r in enumerate(reply["responses"]) if r and "value" in r]
        by = self.rng.choice((-2, -1, 1, 2))
        if told and self.rng.random() < 0.6:
            i = self.rng.choice(told)
            name = self.rng.choice([*reply["responses"][i]])
            response = {**reply["responses"][i], name: max(1, reply["responses"][i][name] + by)}
            reply["responses"] = [*reply["responses"][:i], response, *reply["responses"][i + 1 :]]
        else:
            reply["revision"] = max(1, reply["revision"] + by)
        self.events[at] = msgspec.structs.replace(event, value=reply)

    def drop(self, count: int) -> None:
        """The history begins later: what was invoked before is not told, though it may take effect later."""
        opened: set[int] = set()
        kept: list[Event] = []
        for event in self.events[count:]:
            assert type(event) is OpEvent
            if event.type is Outcome.INVOKE:
                opened.add(event.process)
            elif event.process in opened:
                opened.discard(event.process)
            else:
                continue
            kept.append(msgspec.structs.replace(event, index=len(kept)))
        self.events = kept

    def _event(self, client: Client, outcome: Outcome, value: Any) -> None:
        index = len(self.events)
        self.events.append(
            OpEvent(
                index=index,
                time_ns=index * 1000,
                type=outcome,
                process=client.process,
                f=client.f,
                node="n1",
                key=client.key or None,
                value=value,
            )
        )
