"""Access to the Linux kernel: namespaces, netlink, nftables, processes, and the supervisor."""
