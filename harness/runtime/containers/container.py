"""One container of a node, through its engine: signals, freezing, removal. Every call blocks until the engine answers.

An engine's refusal may mean that the container has ended, or is already in the wanted state. Docker and Podman word
such refusals differently; this module is the only one that reads them.
"""

import os
import signal
import time
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.engine.ownership import remove_container
from fencepost.harness.runtime.linux import cgroup

if TYPE_CHECKING:
    from docker import DockerClient

#: From the first refusal of a pause until the refusal is believed; shorter than what a fault has for one act.
_FREEZE_TIMEOUT_S: Final = 5.0
_FREEZE_AGAIN_S: Final = 0.2
#: An exit status above this means a death by a signal, except for signals that programs turn into such a status.
_SIGNALLED: Final = 128
_OWN_STATUSES: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class Container:
    """The container `container_id` of node `node`.

    `pid` is its first process as this machine numbers it; None where the container runs on another kernel or has ended.
    """

    def __init__(self, client: "DockerClient", node: str, container_id: str, pid: int | None) -> None:
        self._api: Any = client.api
        self._client = client
        self._node = node
        self.id: Final = container_id
        self.pid: Final = pid

    def terminate(self) -> bool:
        """Send SIGTERM to the first process; False when the container had ended before."""
        from docker.errors import APIError, NotFound

        with asking(f"stopping node {self._node}", hint=f"docker kill -s TERM {self.id[:12]}"):
            try:
                self._api.kill(self.id, "SIGTERM")
            except NotFound:
                return False
            except APIError as error:
                if not _is_over(_text_of(error)):
                    raise
                return False
        return True

    def kill(self, *, is_frozen: bool, may_signal: bool) -> bool:
        """Send SIGKILL to everything in the container; False when it had ended before.

        Args:
            is_frozen: the container is paused. Its first process then gets the signal before the thaw, so that it
                never runs again.
            may_signal: this process may signal the container's processes directly.
        """
        from docker.errors import APIError, NotFound

        with asking(f"killing node {self._node}", hint=f"docker kill {self.id[:12]}"):
            if is_frozen and may_signal and self.pid is not None and cgroup.belongs(self.pid, self.id):
                # The container's other processes follow the first.
                os.kill(self.pid, signal.SIGKILL)
            try:
                self._api.kill(self.id, "SIGKILL")
            except NotFound:
                return False
            except APIError as error:
                text = _text_of(error)
                # First: Podman's words for a frozen container also say that it is not running.
                if "paused" in text:
                    self._thaw_and_kill()
                    return True
                if not _is_over(text):
                    raise
                return False
        return True

    def freeze(self) -> bool:
        """Stop every process; False when the container has ended, which the engine's events report too."""
        return self._change_freezer("pause")

    def thaw(self) -> bool:
        """Let every process go on; False when the container has ended."""
        return self._change_freezer("unpause")

    def remove(self) -> None:
        """Remove the container whatever its state. Does nothing when it is gone."""
        from docker.errors import NotFound

        with asking(f"removing a container of node {self._node}", hint=f"docker rm -fv {self.id[:12]}"):
            try:
                remove_container(self._client, self.id)
            except NotFound:
                return

    def _thaw_and_kill(self) -> None:
        """Kill a frozen container where the engine refuses to; Docker 20.10 and Podman 4.3 do not refuse."""
        from docker.errors import APIError

        self._api.unpause(self.id)
        try:
            self._api.kill(self.id, "SIGKILL")
        except APIError as error:
            # The signal that waited for the thaw was faster.
            if not _is_over(_text_of(error)):
                raise

    def _change_freezer(self, action: str) -> bool:
        """Pause or unpause.

        A refusal is tried again: the kernel does not always freeze a busy container at once ("unable to freeze").
        """
        from docker.errors import APIError

        deadline = time.monotonic() + _FREEZE_TIMEOUT_S
        with asking(f"{action} of node {self._node}", hint="fencepost doctor says whether this engine can pause"):
            while True:
                try:
                    getattr(self._api, action)(self.id)
                except APIError as error:
                    text = _text_of(error)
                    if f"already {action}d" in text or (action == "unpause" and "not paused" in text):
                        return True
                    if _is_over(text):
                        return False
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_FREEZE_AGAIN_S)
                else:
                    return True


def exit_status(reported: int) -> int:
    """Return a status as the lab has it: an engine reports 137 for a death by signal 9, which is -9 here."""
    number = reported - _SIGNALLED
    return -number if 0 < number <= signal.NSIG and number not in _OWN_STATUSES else reported


def _text_of(error: Any) -> str:
    return str(error.explanation or error).lower()


def _is_over(text: str) -> bool:
    """Whether an engine's refusal means that the container has ended."""
    return any(phrase in text for phrase in ("is not running", "not running", "can only kill running", "no such"))
