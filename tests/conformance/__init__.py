"""Tests of the conformance suite of systems."""
