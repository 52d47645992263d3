"""The runs that exercise the rows: a workload with faults and options, the same on every system that offers it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec


class ExperimentId(StrEnum):
    MEMBERS = "members"
    BELIEF = "belief"
    FENCING = "fencing"
    REGISTERS = "registers"
    ELEMENTS = "elements"
    STORAGE = "storage"
    LISTENERS = "listeners"
    BROKERS = "brokers"
    TOPICS = "topics"
    SESSIONS = "sessions"


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of run; `about` says in words what happens in it. `reads` is the option that gets the current read."""

    id: ExperimentId
    workload: str
    nemesis: str
    about: str
    workload_options: Mapping[str, Any] = {}
    reads: str = ""

    def nemesis_where(self, *, somebody_leads: bool) -> str:
        """The faults, of any node where no node leads."""
        return self.nemesis if somebody_leads else self.nemesis.replace(":leader", ":one")


#: In the order in which they are run: what shows most comes first.
EXPERIMENTS: Final = (
    Experiment(
        id=ExperimentId.SESSIONS,
        workload="metastore",
        nemesis="none",
        about="batches, watches, families, ephemerals and sessions that end, without any fault",
    ),
    Experiment(
        id=ExperimentId.MEMBERS,
        workload="group-membership",
        nemesis="pause:leader,partition:leader",
        about="processes join, renew, leave and fall silent while leaders are paused and cut off",
    ),
    Experiment(
        id=ExperimentId.BROKERS,
        workload="partition-states",
        nemesis="kill,partition:leader",
        about="brokers are killed, cut off and come back, and each says who is there",
    ),
    Experiment(
        id=ExperimentId.BELIEF,
        workload="election",
        nemesis="pause:leader",
        about="leaders act without a check of their term, as KIP-30's interface has them do",
        workload_options={"fencing": "off"},
    ),
    Experiment(
        id=ExperimentId.REGISTERS,
        workload="register",
        nemesis="partition:leader,pause:leader",
        about="values are read, written and compared while leaders are cut off and paused",
        reads="reads",
    ),
    Experiment(
        id=ExperimentId.STORAGE,
        workload="storage",
        nemesis="partition:leader,pause:leader",
        about="keys are put, updated and fetched while leaders are cut off and paused; who gets no answer asks again",
        reads="reads",
    ),
    Experiment(
        id=ExperimentId.TOPICS,
        workload="metadata",
        nemesis="partition:leader",
        about="names are taken and settings changed while controllers are cut off, and listeners fetch the log",
        workload_options={"listeners": 2},
    ),
    Experiment(
        id=ExperimentId.LISTENERS,
        workload="watch",
        nemesis="partition:leader,pause:leader",
        about="keys change and listeners are told while leaders are cut off and paused",
    ),
    Experiment(
        id=ExperimentId.ELEMENTS,
        workload="set",
        nemesis="kill",
        about="elements are added while servers are killed",
    ),
    Experiment(
        id=ExperimentId.FENCING,
        workload="election",
        nemesis="pause:leader",
        about="leaders act with a check of their term, by a token that KIP-30's interface does not have; observers ask"
        " by current reads",
        # Some campaigns are given up while a leader sleeps, so that others must learn what became of them.
        workload_options={"fencing": "on", "give_up": "1500ms"},
        reads="observe",
    ),
)
