"""How the users of a system say it: the word for its epochs, its subjects, the way its positions are written."""

import msgspec


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """A system's own words, for whoever writes about its runs."""

    #: A leader's reign.
    epoch: str = "epoch"
    #: What beliefs are about, by its name in the history, where users call it something else.
    subjects: dict[str, str] = {}
    #: Whether positions are written as hexadecimal numbers (zxids) or as decimal ones (revisions, offsets).
    hexadecimal: bool = False

    def subject(self, name: str) -> str:
        """What users call this subject."""
        return self.subjects.get(name, name)

    def position(self, number: int | None) -> str:
        """A store's position as users write it; empty where there is none."""
        if number is None:
            return ""
        return f"0x{number:x}" if self.hexadecimal else str(number)
