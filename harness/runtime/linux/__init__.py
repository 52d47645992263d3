"""The kernel from Python: namespaces, netlink, nftables, processes, the supervisor."""
