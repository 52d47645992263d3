"""How long a cluster is without a controller, against the number of its topic partitions (`fencepost failover`).

`cell` says what is measured. `child` is the process that runs one cluster and measures it. `curve` starts these
processes one after another and collects their samples. `growth`, `document` and `page` turn them into figures, a table
and a picture.
"""
