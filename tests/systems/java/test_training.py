"""What the training runs of Java servers share: ports that wait for their server."""

import errno
import socket

import pytest

from fencepost.harness.java.archive_training import LOOPBACK, held_ports


def test_a_held_port_is_its_servers_alone() -> None:
    with held_ports(3) as ports:
        assert len(set(ports)) == 3
        for port in ports:
            # As a program is told that was given it for a connection of its own, or asks for it.
            with socket.socket() as other, pytest.raises(OSError) as taken:
                other.bind((LOOPBACK, port))
            assert taken.value.errno == errno.EADDRINUSE
            # As Java's servers do.
            with socket.create_server((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, port))
