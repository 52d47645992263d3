"""What every event of a history has."""

import msgspec


# Events hold JSON values without cycles, so the garbage collector need not visit a million of them (gc=False).
class BaseEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """Every event: `index` counts from 0 without gaps and is the order; `time_ns` never decreases with it."""

    index: int
    time_ns: int
