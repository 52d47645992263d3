"""The progress of a night on stderr: a live table on a terminal, one line for each run that ended elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, Final

from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.outcome import tested_in_words
from fencepost.campaigns.night.pool import Pool
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.strategy import Strategy
from fencepost.campaigns.night.telling import MEASURED, spent
from fencepost.harness.base.quantities import lasting

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_REASON_MAX: Final = 100
_ROWS_MAX: Final = 12


class NightTable:
    """Shows what is in flight, how many cells have which class, and the estimated end; `close` ends the live table."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy, self._stream = strategy, sys.stderr
        self._live: Live | None = None
        self._console: Console | None = None
        self._shown: set[tuple[int, str, int, int]] = set()
        self._begun: set[tuple[int, str, int, int]] = set()

    def line(self, text: str) -> None:
        """A line that stays."""
        if self._console is not None:
            self._console.print(text, markup=False, highlight=False)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()

    def change(self, night: Night, pool: Pool) -> None:
        """Show the night as it is now."""
        names = {o.cell.id: o.cell.name for o in night.cells}
        outcomes = {o.cell.id: o for o in night.cells}
        cells = [o for o in night.cells if not o.cell.canary]
        for attempt in night.attempts:
            if attempt.run_class is not None and attempt.key not in self._shown:
                self._shown.add(attempt.key)
                sign, run_class = self._strategy.sign(outcomes[attempt.cell], attempt)
                why = f": {attempt.reason[:_REASON_MAX]}" if attempt.reason and run_class != MEASURED else ""
                more = self._strategy.describe(attempt)
                why += f"; {more}" if more else ""
                again = f" (attempt {attempt.number})" if attempt.number > 1 else ""
                self.line(f"{sign} {run_class:18}{names[attempt.cell]}{again}, {attempt.seconds:.0f} s{why}")
        if self._stream.isatty():
            self._draw(night, pool, names)
            return
        for one in pool.in_flight if self._strategy.says_begins else ():
            if one.attempt.key not in self._begun:
                self._begun.add(one.attempt.key)
                self.line(
                    f"  begins {names[one.attempt.cell]}; {tested_in_words(cells)}; "
                    f"{spent(night)}; ends in {lasting(pool.expected_end_s())}"
                )

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live, self._console = None, None

    def _draw(self, night: Night, pool: Pool, names: dict[str, str]) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(file=self._stream)
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        self._live.update(self._table(night, pool, names))

    def _table(self, night: Night, pool: Pool, names: dict[str, str]) -> "RenderableType":
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        end = time.strftime("%H:%M", time.localtime(time.time() + pool.expected_end_s()))
        classes = [o.run_class for o in night.cells if not o.cell.canary]
        counts = ", ".join(f"{classes.count(c)} {c}" for c in RunClass if c in classes)
        table = Table(
            title=f"{night.campaign}: {spent(night)}, ends about {end}",
            caption=f"{counts}; {len(pool.waiting)} runs wait",
            box=SIMPLE_HEAD,
            expand=True,
            title_justify="left",
            caption_justify="left",
        )
        table.add_column("in flight")
        table.add_column("for", justify="right")
        for one in pool.in_flight[:_ROWS_MAX]:
            again = f" (attempt {one.attempt.number})" if one.attempt.number > 1 else ""
            table.add_row(Text(f"{names[one.attempt.cell]}{again}"), f"{pool.elapsed_s(one):.0f} s")
        return table
