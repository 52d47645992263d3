"""`python -m harness.cli`, for a tree that is not installed."""

from fencepost.harness.cli import main

raise SystemExit(main())
