"""The page of a run or of a judged file: one self-contained HTML file."""
