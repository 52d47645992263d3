"""The ground: errors and exit codes, durations, signals, stop requests, new files. Imports nothing of ours."""
