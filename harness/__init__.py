"""The core of a run, in rooms from plan to report; none imports one below it, and none names a system."""
