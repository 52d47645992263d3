"""The core of a run, from plan to report, in rooms in the order of a run; none imports one below it, or names a system."""
