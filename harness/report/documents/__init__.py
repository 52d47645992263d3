"""A judged run for machines: verdict.json, JUnit, the rows of events."""
