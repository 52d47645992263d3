"""Everything that is a table: pairing, staleness, leadership intervals, availability around faults."""
