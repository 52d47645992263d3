"""KIP-30 and KIP-273 as a table: each row of the proposals, by system, promised and measured."""
