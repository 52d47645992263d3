"""Header blocks (HPACK, RFC 7541), used without state, so that a block seen before is recognised by its bytes.

HPACK's dynamic table makes the meaning of a block depend on all earlier blocks. The client asks the server for an empty
table. After that equal bytes mean equal headers, and etcd's answers all begin and end with the same few blocks. Until
the server acknowledges this, every block goes through the decoder in order. The client's own blocks never use the table
and say so in their first byte, which is also right for a server that allows no table.
"""

from collections.abc import Mapping
from typing import Final

from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError

Headers = Mapping[str, str]

#: The number of blocks remembered for a connection: the head and end of an answer, and a few refusals.
_KNOWN_MAX: Final = 64
_KNOWN_BYTES_MAX: Final = 512


class BadBlock(Exception):
    """The bytes are not a header block, or need a table entry that does not exist."""


class BlockReader:
    """Reads the blocks of one connection; every block must be read, even when nobody waits for it."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._known: dict[bytes, Headers] = {}
        self._stateless = False

    def forget_table(self) -> None:
        """Note that the server acknowledged an empty table."""
        self._decoder.header_table_size = 0
        self._decoder.max_allowed_table_size = 0
        self._stateless = True

    def read(self, block: bytes) -> Headers:
        """Decode the headers; a repeated name keeps its last value. Bytes that are not ASCII become U+FFFD."""
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
    """Encode a block whose meaning does not depend on other blocks."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(headers, huffman=False)


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode("ascii", "replace")
