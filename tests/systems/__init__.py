"""Tests of the systems: their clients, what they promise, how their binaries are found."""
