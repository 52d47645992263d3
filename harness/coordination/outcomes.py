"""How a request can end without a reply: `Definite` (nothing happened), `NotSent`, `Compacted`, `Indefinite`."""


class Definite(Exception):
    """The request did not take effect and never will. `code` is a row of the client's error table."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


class NotSent(Definite):
    """Nothing was sent, and this connection can no longer be used: its owner must close it and open another."""


class Compacted(Definite):
    """A watch cannot begin or continue at a compacted position; `position` is where history begins now."""

    def __init__(self, position: int, detail: str = "") -> None:
        super().__init__("compacted", detail)
        self.position = position


class Indefinite(Exception):
    """The request may have taken effect, or may still. `code` is a row of the client's error table."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
