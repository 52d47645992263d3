"""`make bench-checkers`: our core and Porcupine on the same histories, in turns, on one processor.

histories    random histories whose verdict is known by how they were made, a million operations in seconds
recorded     real ones
cells        the grid of histories, and the classes that their results fall into
contest      one history, both checkers in turns: processor time and memory
table        the classes, what was wanted of each, and the lines of the table
"""
