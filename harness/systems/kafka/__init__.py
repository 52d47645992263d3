"""Asking one Kafka node, broker or controller: the protocol, exact outcomes, who leads.

`messages` and `fields` are the bytes, `records` the batches, `connection` one TCP connection, `errors` the table from
error codes to outcomes, `client` the requests by name (`transactions`: those of transactional producers), `question`
and `log_lines` what a node says of its role, `session` and `elections` the protocols that workloads speak.
"""
