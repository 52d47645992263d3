"""Header blocks (HPACK, RFC 7541), kept free of state, so that a block seen before is known by its bytes.

HPACK's dynamic table makes the meaning of a block depend on all blocks before it. We ask the server for a table of no
entries, after which equal bytes mean equal headers, and an etcd's answers all begin and end with the same few blocks.
Until the server has acknowledged that, every block goes through the decoder, in its order. Our own blocks never use the
table and say so in their first byte, which also satisfies a server that allows none.
"""

from collections.abc import Mapping
from typing import Final

from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError

Headers = Mapping[str, str]

#: Blocks remembered per connection: an answer's head, its end, and a few refusals.
_KNOWN_MAX: Final = 64
_KNOWN_BYTES_MAX: Final = 512


class BadBlock(Exception):
    """Not a header block, or one that needs a table which is not there."""


class BlockReader:
    """Reads one connection's blocks; every block must be read, also one that nobody waits for."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._known: dict[bytes, Headers] = {}
        self._stateless = False

    def forget_table(self) -> None:
        """The server acknowledged that it keeps no table."""
        self._decoder.header_table_size = 0
        self._decoder.max_allowed_table_size = 0
        self._stateless = True

    def read(self, block: bytes) -> Headers:
        """The headers; of those that stand twice, the last. Values are ASCII in gRPC; another byte becomes U+FFFD."""
        known = self._known.get(block)
        if known is not None:
            return known
        try:
            pairs = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise BadBlock(str(error)) from None
        headers = {_text(name): _text(value) for name, value in pairs}
        if self._stateless and len(self._known) < _KNOWN_MAX and len(block) <= _KNOWN_BYTES_MAX:
            self._known[block] = headers
        return headers


def write_block(headers: list[tuple[str, str]]) -> bytes:
    """A block that means the same wherever in a connection it stands."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(headers, huffman=False)


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode("ascii", "replace")
