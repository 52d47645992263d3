"""Facts of one history: positions, claims, reigns, faults, intervals, clocks, stalls, evidence."""
