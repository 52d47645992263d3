"""Skewed clocks of single processes, without touching the machine's clock: the mechanism of `clock-skew`.

The kernel gives every process its own copy of the vDSO, the code that reads clocks. We replace the first instructions
of its three clock functions by a jump to our code (`x86_64/functions.S`), which calls the kernel's own function and
adds a skew, a known function of true time. Two parts do this:

- the *clock daemon* (`clock_daemon.py`), a small process with one thread, stops processes for a moment to arm or disarm
  them, arms new processes of a node, and catches a restarted server before its first instruction;
- this process (`node_clocks.py`) changes the settings of armed processes by two writes to their memory, which stops
  no process.

`docs/explanation/clock-skew.md` explains the choice and its limits.
"""
