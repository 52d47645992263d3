"""One run from outside: folder, artifacts, the runner child, verdict, report."""
