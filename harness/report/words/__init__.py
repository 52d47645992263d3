"""Words and numbers of reports: durations, guarantees, evidence rows."""
