"""Second opinions: what another checker says of the history that was just judged, and whether it agrees.

opinion       what is asked, what an answer is, and what comes of the two verdicts
asking        every tool that can be asked, by name
porcupine     Porcupine, by a small Go program of ours, built on first use
installed     Knossos and Elle, by command lines that the user has
"""
