"""Second opinions: another checker judges the same history, and we compare its verdict with ours.

opinion       the question, the answer, and the comparison of the two verdicts
asking        every tool that can be asked, by name
porcupine     Porcupine, through a small Go program of ours that is built on first use
installed     Knossos and Elle, through commands that the user has installed
"""
