"""Runs: plan -> cluster -> interpreter -> history -> verdict -> report (DESIGN: the flow)."""
