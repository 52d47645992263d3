"""What a server tells of its clock, held against what the clock was set to show."""

from fencepost.harness.faults.clock_answers import is_possible
from fencepost.harness.runtime.clocks.setting import RATE_ONE, ClockSetting

S = 10**9


def test_a_server_s_own_word_against_the_settings_is_believed() -> None:
    ahead = ClockSetting(offset_ns=5 * S)
    assert is_possible(ahead, 5 * S + 900_000_000, S, S)
    assert not is_possible(ahead, 0, S, S)
    strobing = ClockSetting(period_ns=1, delta_ns=-9 * S, length_ns=S)
    assert is_possible(strobing, -9 * S, 1, S)
    assert is_possible(strobing, 0, 1, S)
    assert not is_possible(strobing, S, 1, S)
    assert is_possible(ClockSetting(extra_rate=RATE_ONE), 2 * S, 1, 2 * S)
    assert not is_possible(ClockSetting(extra_rate=RATE_ONE), 3 * S, 1, 2 * S)
