"""A program that every fault finds something to act on: `server.py DATA`.

It appends lines to DATA/log and syncs each, reads its clocks, has a child that sleeps, and ends at the first error.
"""

import os
import sys
import time


def main() -> None:
    fd = os.open(os.path.join(sys.argv[1], "log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o640)
    if not os.fork():
        os.close(fd)
        while True:
            time.sleep(5)
    while True:
        os.write(fd, b"%d %d\n" % (time.time_ns(), time.monotonic_ns()))
        os.fdatasync(fd)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
