"""Key-value stores whose every write has a number in one order: etcd's revisions, ZooKeeper's zxids.

The numbers say in which order the writes took effect, so a history is judged without a search: each answer must be the
one that the store gives at the number which the answer names, and the numbers must agree with real time.
"""
