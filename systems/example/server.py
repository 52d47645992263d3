"""One node of the example: a store replicated by Raft, in the plainest Python that is still right.

Raft as in figure 2 of Ongaro and Ousterhout (2014), without snapshots, pre-votes and changes of members. Reads go
through the log as writes do. A leader that did not hear from a majority for two election time-outs steps down
(CheckQuorum). Nodes and clients speak JSON, one object a line, each answered with the same `id`.

`--defect` switches off one of the things that make it right:

    stale-reads     the leader answers reads from its own store, without asking a majority, and goes on after it
                    stepped down until it hears of a successor
    early-ack       the leader acknowledges what it appended before a majority has it
    keeps-leading   a leader that is cut off never steps down
    forgets         a node that starts again has forgotten its term, its vote and its log
    skips           the last node leaves out every tenth write when it applies its log
    stuck           a node that starts again never stands for election
    stays-away      the last node ends, with exit status 10, whenever it starts again
    ends            the last node ends by itself, with exit status 10, a while after its first start
"""

import argparse
import asyncio
import contextlib
import copy
import json
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from fencepost.systems.example.journal import Journal
from fencepost.systems.example.lease_clock import LeaseClock
from fencepost.systems.example.store import LEASE_COMMANDS, Answer, Command, ExampleStore

DEFECTS: Final = (
    "none",
    "stale-reads",
    "early-ack",
    "keeps-leading",
    "forgets",
    "ends",
    "skips",
    "stuck",
    "stays-away",
)
#: How long after its first start a node with the defect `ends` ends.
_LIFE_S: Final = 6.0
_ENDED: Final = 10
_JOURNAL: Final = "journal.jsonl"
_READS: Final = frozenset({"read", "members", "roster", "dump"})
_BATCH_MAX: Final = 100
Message = dict[str, Any]


class Server:
    def __init__(self, name: str, peers: dict[str, tuple[str, int]], data: Path, election_s: float, defect: str):
        self._name, self._peers, self._election_s, self._defect = name, peers, election_s, defect
        self._journal = Journal(data / _JOURNAL, keeps=defect != "forgets")
        self._stands = defect != "stuck" or not self._journal.entries
        self._store = ExampleStore(skips=defect == "skips" and name > max(peers, default=""))
        #: With `early-ack`: the store as it will be once a majority has the leader's whole log.
        self._ahead = ExampleStore()
        self._role, self._leader = "follower", ""
        #: With `stale-reads`: the term whose leader this node was; 0 once it heard of another one.
        self._reads_as = 0
        self._votes, self._committed = set[str](), 0
        #: By peer: the next entry to send, the last one it has, and when it answered last.
        self._next: dict[str, int] = {}
        self._has: dict[str, int] = {}
        self._heard_s: dict[str, float] = {}
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._news = {peer: asyncio.Event() for peer in peers}
        self._writers: set[asyncio.StreamWriter] = set()
        self._lease_clock = LeaseClock(self._store)
        self._quiet_from_s, self._patience_s = 0.0, election_s

    async def run(self, address: str, client_port: int, peer_port: int) -> None:
        clients = await asyncio.start_server(self._serve(self._answer_client), address, client_port)
        peers = await asyncio.start_server(self._serve(self._answer_peer), address, peer_port)
        self._wait_again()
        if self._defect == "ends" and self._name > max(self._peers) and not self._journal.entries:
            asyncio.get_running_loop().call_later(_LIFE_S, sys.exit, _ENDED)
        try:
            await asyncio.gather(self._watch_the_clock(), *(self._speak_to(peer) for peer in self._peers))
        finally:
            clients.close()
            peers.close()
            for writer in self._writers:
                writer.close()
            self._journal.close()

    # --- roles ------------------------------------------------------------------------------------------------------

    async def _watch_the_clock(self) -> None:
        while True:
            await asyncio.sleep(self._election_s / 10)
            self._look_at_the_clock()

    def _look_at_the_clock(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._role == "leader":
            near = sum(now_s - heard_s < 2 * self._election_s for heard_s in self._heard_s.values()) + 1
            if near <= len(self._peers) // 2 and self._defect != "keeps-leading":
                self._follow(self._journal.term, "")
            else:
                for end in self._lease_clock.ends(now_s):
                    self._append(end)
        elif self._stands and now_s - self._quiet_from_s > self._patience_s:
            self._journal.keep_vote(self._journal.term + 1, self._name)
            self._role, self._leader, self._votes = "candidate", "", {self._name}
            self._wait_again()
            self._count_votes()

    def _wait_again(self) -> None:
        self._quiet_from_s = asyncio.get_running_loop().time()
        self._patience_s = self._election_s * random.uniform(1, 2)
        for event in self._news.values():
            event.set()

    def _follow(self, term: int, leader: str) -> None:
        if term > self._journal.term:
            self._journal.keep_vote(term, "")
        self._role, self._leader = "follower", leader
        if leader:
            self._reads_as = 0
        self._wait_again()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_result({"error": "leader-changed", "unknown": True})

    def _count_votes(self) -> None:
        if self._role == "candidate" and 2 * len(self._votes) > len(self._peers) + 1:
            self._role, self._leader, self._reads_as = "leader", self._name, self._journal.term
            now_s = asyncio.get_running_loop().time()
            self._next = dict.fromkeys(self._peers, len(self._journal.entries) + 1)
            self._has, self._heard_s = dict.fromkeys(self._peers, 0), dict.fromkeys(self._peers, now_s)
            self._lease_clock.begin(now_s)
            self._ahead = copy.deepcopy(self._store)
            for index in range(self._committed + 1, len(self._journal.entries) + 1):
                self._ahead.apply(index, self._journal.entries[index - 1][1])
            print(f"leader of epoch {self._journal.term}", flush=True)
            # An entry of its own term, by which it commits those before.
            self._append({"op": "read"})

    # --- the log ----------------------------------------------------------------------------------------------------

    def _append(self, command: Command) -> Answer:
        """Append a command; with `early-ack` returns the reply that it has once a majority has the log."""
        index = len(self._journal.entries) + 1
        self._journal.keep_entries(index, [(self._journal.term, command)])
        self._commit()
        for event in self._news.values():
            event.set()
        return self._ahead.apply(index, command) if self._defect == "early-ack" else {}

    def _commit(self) -> None:
        """Apply what a majority has, as far as an entry of this term reaches."""
        reached = sorted([*self._has.values(), len(self._journal.entries)], reverse=True)[len(self._peers) // 2]
        if self._role == "leader" and self._journal.term_at(reached) == self._journal.term:
            self._apply(reached)

    def _apply(self, until: int) -> None:
        for index in range(self._committed + 1, until + 1):
            term, command = self._journal.entries[index - 1]
            answer = self._store.apply(index, command) | {"epoch": term}
            if command["op"] in LEASE_COMMANDS:
                lease = str(answer.get("lease", command.get("lease")))
                self._lease_clock.count(lease, asyncio.get_running_loop().time())
            future = self._waiting.pop(index, None)
            if future is not None and not future.done():
                future.set_result(answer)
        self._committed = max(self._committed, until)

    # --- clients ----------------------------------------------------------------------------------------------------

    async def _answer_client(self, request: Message) -> Answer:
        command: Command = request["command"]
        if command["op"] == "who":
            role = {"leads": self._role == "leader", "leader": self._leader}
            return {**role, "epoch": self._journal.term, "position": self._store.position}
        if command["op"] in _READS and request.get("plain"):
            return self._store.read(command)
        if self._defect == "stale-reads" and self._reads_as and command["op"] in _READS:
            return self._store.read(command) | {"epoch": self._reads_as}
        if self._role != "leader":
            return {"error": "not-leader"}
        if self._defect == "early-ack":
            return self._append(command) | {"epoch": self._journal.term}
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        # Of a cluster of one the append commits at once.
        self._waiting[len(self._journal.entries) + 1] = future
        self._append(command)
        return await future

    # --- peers ------------------------------------------------------------------------------------------------------

    async def _answer_peer(self, request: Message) -> Answer:
        term = request["term"]
        if term < self._journal.term:
            return {"term": self._journal.term, "granted": False}
        if request["kind"] == "vote":
            if term > self._journal.term:
                self._follow(term, "")
            up_to_date = tuple(request["last"]) >= self._journal.last()
            granted = up_to_date and self._journal.vote in ("", request["from"])
            if granted:
                self._journal.keep_vote(term, request["from"])
                self._wait_again()
            return {"term": term, "granted": granted}
        self._follow(term, request["from"])
        before, entries = request["before"], [(entry[0], entry[1]) for entry in request["entries"]]
        if before > len(self._journal.entries) or self._journal.term_at(before) != request["before_term"]:
            return {"term": term, "granted": False}
        for place, entry in enumerate(entries, before + 1):
            if place > len(self._journal.entries) or self._journal.term_at(place) != entry[0]:
                self._journal.keep_entries(place, entries[place - before - 1 :])
                break
        last = before + len(entries)
        self._apply(min(request["committed"], last))
        return {"term": term, "granted": True, "has": last}

    async def _speak_to(self, peer: str) -> None:
        """One request at a time: as a candidate for its vote, as the leader with what it lacks, or an empty beat."""
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news[peer].wait(), self._election_s / 5)
            self._news[peer].clear()
            request = self._request_for(peer)
            if request is None:
                continue
            try:
                async with asyncio.timeout(self._election_s / 2):
                    if connection is None:
                        connection = await asyncio.open_connection(*self._peers[peer])
                        self._writers.add(connection[1])
                    answer = await _ask(*connection, request)
            except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
                if connection is not None:
                    connection[1].close()
                    self._writers.discard(connection[1])
                connection = None
                continue
            self._take_answer(peer, request, answer)

    def _request_for(self, peer: str) -> Message | None:
        journal = self._journal
        if self._role == "candidate" and peer not in self._votes:
            return {"kind": "vote", "from": self._name, "term": journal.term, "last": journal.last()}
        if self._role != "leader":
            return None
        before = self._next[peer] - 1
        return {
            "kind": "append",
            "from": self._name,
            "term": journal.term,
            "before": before,
            "before_term": journal.term_at(before),
            "entries": journal.entries[before : before + _BATCH_MAX],
            "committed": self._committed,
        }

    def _take_answer(self, peer: str, request: Message, answer: Message) -> None:
        if answer["term"] > self._journal.term:
            self._follow(answer["term"], "")
        elif request["term"] != self._journal.term:
            return
        elif request["kind"] == "vote" and answer["granted"]:
            self._votes.add(peer)
            self._count_votes()
        elif request["kind"] == "append" and self._role == "leader":
            self._heard_s[peer] = asyncio.get_running_loop().time()
            if answer["granted"]:
                self._has[peer] = max(self._has[peer], answer["has"])
                self._next[peer] = self._has[peer] + 1
                self._commit()
            else:
                self._next[peer] = max(1, self._next[peer] - _BATCH_MAX)
            if self._next[peer] <= len(self._journal.entries):
                self._news[peer].set()

    # --- lines ------------------------------------------------------------------------------------------------------

    def _serve(
        self, answer: Callable[[Message], Awaitable[Answer]]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def one(writer: asyncio.StreamWriter, request: Message) -> None:
            reply = await answer(request)
            with contextlib.suppress(OSError):
                writer.write(_line(reply | {"id": request["id"]}))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks = set()
            self._writers.add(writer)
            with contextlib.suppress(OSError):
                while line := await reader.readline():
                    task = asyncio.create_task(one(writer, json.loads(line)))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
            writer.close()
            self._writers.discard(writer)

        return serve


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Message) -> Message:
    writer.write(_line(request | {"id": 0}))
    answer: Message = json.loads(await reader.readuntil())
    return answer


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--client-port", type=int, required=True)
    parser.add_argument("--peer-port", type=int, required=True)
    parser.add_argument("--peers", nargs="*", default=[], help="NAME=HOST:PORT of every other node")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--election-s", type=float, default=1.0)
    parser.add_argument("--defect", choices=DEFECTS, default="none")
    given = parser.parse_args()
    peers = {}
    for text in given.peers:
        name, _, place = text.partition("=")
        host, _, port = place.rpartition(":")
        peers[name] = (host, int(port))
    has_started = (given.data / _JOURNAL).exists()
    if given.defect == "stays-away" and given.name > max(peers) and has_started:
        sys.exit(_ENDED)
    server = Server(given.name, peers, given.data, given.election_s, given.defect)
    asyncio.run(server.run(given.address, given.client_port, given.peer_port))


if __name__ == "__main__":
    main()
