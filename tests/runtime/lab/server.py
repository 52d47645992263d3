"""A small server for the tests of the lab: `python server.py PORT`; only the standard library.

Counts its starts in data/starts, says its host name and who it resolves n2 to, then answers each line "X" with "X".
The line "exit N" ends it with that status, "fork" makes a child that lives on.
"""

import contextlib
import os
import socket
import sys
import threading
import time
from pathlib import Path


def serve(connection: socket.socket) -> None:
    # A client may reset the connection; the log is compared and must not show it.
    with contextlib.suppress(ConnectionError), connection, connection.makefile("rw") as lines:
        for line in lines:
            if line.startswith("exit"):
                os._exit(int(line.split()[1]))
            if line.startswith("fork") and os.fork() == 0:
                time.sleep(600)
            lines.write(line)
            lines.flush()


def main() -> None:
    starts = Path("data/starts")
    starts.write_text(str(int(starts.read_text()) + 1 if starts.exists() else 1))
    print(f"start {starts.read_text()} on {socket.gethostname()}, n2 is {socket.gethostbyname('n2')}", flush=True)
    listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
