"""How long a cluster is without a controller, against the number of its topic partitions (`fencepost failover`).

`cell` says what is measured; `child` is the process that holds one cluster and measures; `curve` starts one such
process after another and gathers; `growth`, `document` and `page` make figures, a table and a picture of it.
"""
