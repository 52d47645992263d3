"""Clocks of single processes, skewed live without touching the machine's: how `clock-skew` does what it does.

The kernel gives every process its own copy of the vDSO, the code by which it reads clocks. There the first
instructions of the three clock functions are replaced by a jump to ours (`x86_64/functions.S`), which calls the
kernel's own code and adds a skew that is a known function of true time. Two parts do it:

- the *keeper* (`keeper.py`), a small process of one thread, stops processes for a moment to arm and disarm them, arms
  newcomers of a node, and catches a restarted server before its first instruction;
- this process (`node_clock.py`) changes the settings of armed processes, which stops nobody: two writes to their
  memory.

`docs/2026-11-21-clock-skew.md` says why so, and what is out of reach.
"""
