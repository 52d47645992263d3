"""The commands of campaigns, one file each, as `harness/cli` has its own."""
