"""How long a system is without a leader, against its topic partitions (`fencepost failover`): a night over partitions.

`curve` makes the night's cells and reads from their runs' tables how long each failover took. `figures`, `growth`,
`picture` and `page` turn that into medians, lines, a picture and a page.
"""
