"""Rows about what servers say of themselves: their release, their settings, and who leads."""

import asyncio
from typing import Final

from fencepost.harness.conformance.rows import SuiteRow, failed, not_applicable, passed
from fencepost.harness.conformance.stage import CALL_S, HEALTHY_S, CallEnding, PendingCall, SuiteServers
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.contract.releases import ask_version
from fencepost.harness.contract.server_settings import same_value
from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim

_LOOK_S: Final = 0.1


async def version(stage: SuiteServers) -> SuiteRow:
    """Every server says the release of its artifacts."""
    name, versions = "version", stage.system.versions
    if versions is None:
        return not_applicable(name, "the system has not the part versions")
    reported: dict[str, list[str]] = {}
    for node in stage.nodes.values():
        says, why = await ask_version(versions, node, log_from=0, hurried=lambda: False)
        if says is None:
            return failed(name, f"{node.name} says no release: {why}")
        expected = versions.expected(node, stage.servers.artifacts)
        if says != expected:
            return failed(name, f"{node.name} says {says}, and its artifacts are of {expected}")
        reported[says] = [*reported.get(says, []), node.name]
    return passed(name, "; ".join(f"{', '.join(nodes)}: {release}" for release, nodes in reported.items()))


async def settings(stage: SuiteServers) -> SuiteRow:
    """The settings that the cluster was started with are in force by what each node reports."""
    name, settings, given = "settings", stage.system.settings, stage.checked.plan.settings
    if settings is None:
        return not_applicable(name, "the system has not the part settings")
    if not given:
        return not_applicable(name, "no setting was given")
    shown = {}
    for node in stage.nodes.values():
        applied = await settings.applied(node, given)
        for setting in applied:
            if setting.says is not None and not same_value(setting.says, setting.value):
                return failed(
                    name, f"{setting.setting}={setting.value}, and {node.name} reports {setting.says} ({setting.by})"
                )
            shown[f"{setting.setting}={setting.value}"] = "read back" if setting.says is not None else setting.by
    missing = [f"{of}.{key}" for of, keys in given.items() for key in keys if not any(key in text for text in shown)]
    if missing:
        return failed(name, f"no node reports how {', '.join(missing)} applies")
    return passed(name, "; ".join(f"{text}: {how}" for text, how in shown.items()))


async def leader(stage: SuiteServers) -> SuiteRow:
    """Asked one by one, one node says that it leads, the others name it, and the log of its reign agrees."""
    name, subject = "leader", stage.system.profile.subject
    loop = asyncio.get_running_loop()
    ends_s, wrong = loop.time() + HEALTHY_S, ""
    while loop.time() < ends_s:
        answers = await _answers(stage, subject)
        if not answers:
            return not_applicable(name, f"no node can be asked about its {subject}" if subject else "no node leads")
        row = _agreed(stage, answers)
        if isinstance(row, SuiteRow):
            return row
        wrong = row
        await asyncio.sleep(_LOOK_S)
    return failed(name, wrong)


async def _answers(stage: SuiteServers, subject: str) -> dict[str, Answer | str]:
    """What each node that can be asked says, or how its question ended."""
    answers: dict[str, Answer | str] = {}
    for node in stage.nodes:
        question = stage.system.question(stage.place(node), subject)
        if question is None:
            continue
        try:
            end = await PendingCall(question.ask()).end(CALL_S)
            is_answer = end.ending is CallEnding.OK and isinstance(end.value, Answer)
            answers[node] = end.value if is_answer and isinstance(end.value, Answer) else end.text
        finally:
            await question.close()
    return answers


def _agreed(stage: SuiteServers, answers: dict[str, Answer | str]) -> SuiteRow | str:
    """The passed row, or what is wrong now: an election may be under way."""
    silent = [f"{node}: {answer}" for node, answer in answers.items() if isinstance(answer, str)]
    if silent:
        return f"no answer: {'; '.join(silent)}"
    given = {node: answer for node, answer in answers.items() if isinstance(answer, Answer)}
    leading = [node for node, answer in given.items() if answer.claims is Claim.YES]
    if len(leading) != 1:
        return f"{len(leading)} of {len(given)} nodes say that they lead ({', '.join(leading)})"
    (node,) = leading
    others = {other: answer.leader for other, answer in given.items() if answer.leader not in (None, node)}
    if others:
        return f"{node} says that it leads, and {', '.join(f'{o} names {who}' for o, who in others.items())}"
    epoch, text = given[node].epoch, f"{node} in epoch {given[node].epoch}, by {given[node].source}"
    if stage.system.logs is None or not stage.system.logs.became_leader:
        return passed("leader", f"{text}; {len(given)} nodes agree; no log tells of reigns")
    reigns = [(reign, name) for name in given for reign in _reigns(stage, name)]
    if not reigns:
        return "no server's log says that it became the leader"
    last, by = max(reigns)
    if by != node or (epoch is not None and given[node].epoch_exact and last != epoch):
        return f"{text}, and the last reign in the logs is epoch {last} of {by}"
    return passed("leader", f"{text}; {len(given)} nodes and {node}'s log agree")


def _reigns(stage: SuiteServers, node: str) -> list[int]:
    logs, log = stage.system.logs, stage.nodes[node].log
    assert logs is not None
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [event.epoch for event in logs.events(lines) if isinstance(event, BecameLeader)]
