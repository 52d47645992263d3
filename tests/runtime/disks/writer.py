"""A program that appends lines to DATA/log and tells each on stdout once written: `writer.py DATA sync|nosync|hang`.

With "sync" it tells only what it has synced; with "hang" it does nothing. It begins with what the file held, and ends
at the first error.
"""

import os
import sys
import time


def main() -> None:
    data, mode = sys.argv[1:]
    fd = os.open(os.path.join(data, "log"), os.O_CREAT | os.O_RDWR)
    number = os.lseek(fd, 0, os.SEEK_END) // 8
    while mode == "hang":
        time.sleep(1)
    while True:
        os.write(fd, b"%07d\n" % number)
        if mode == "sync":
            os.fdatasync(fd)
        print(number, flush=True)
        number += 1
        time.sleep(0.002)


if __name__ == "__main__":
    main()
