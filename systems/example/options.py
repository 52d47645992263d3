"""The options of the example that a plan can set: its election time-out and a defect."""

from typing import Annotated, Literal

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions

Defect = Literal["none", "stale-reads", "early-ack", "keeps-leading", "forgets", "ends", "skips", "stuck", "stays-away"]


class ExampleOptions(SystemOptions, frozen=True, kw_only=True):
    election: Annotated[
        Duration, about("silence of the leader before a follower stands", least=seconds(0.1), most=seconds(30))
    ] = seconds(1)
    defect: Annotated[Defect, about("what is wrong with the servers on purpose")] = "none"
