"""Words and numbers of reports: durations, guarantees, rows of evidence."""
