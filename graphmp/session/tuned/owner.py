"""A live graph as its tuning sees it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from graphmp.config import Config
from graphmp.rewrite.decisions import decided
from graphmp.rewrite.pipeline import Solver
from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.tuned.verdict import Verdict


class Owner:
    """A live graph whose training steps are timed.

    Attributes:
        config: the options.
        variants: its conversions, by variant; a variant without one is the graph's own nodes.
        debug: whether each run that trains is examined.
    """

    config: Config
    variants: Dict[str, LiveConversion]
    debug: bool

    def scale_state(self, session: Any) -> Tuple[int, List[float]]:
        """The number of skipped steps, and each dynamic loss scale, as a session has them now."""
        raise NotImplementedError

    def convert_also(self, variant: str, config: Config, solve: Solver = decided) -> LiveConversion:
        """Convert the graph once more, for another variant.

        Returns:
            The conversion with both graphs, which `variants` doesn't keep.

        Raises:
            GraphmpError: as `graphmp.convert`.
        """
        raise NotImplementedError

    def decided(self, verdict: Verdict, made: Optional[LiveConversion]) -> None:
        """The tuning is over; `made` is the conversion by measured times, with both graphs."""
        raise NotImplementedError

    def kept(self, text: str, is_written: bool) -> None:
        """The measurements were written to a file, or couldn't be; `text` says so."""
        raise NotImplementedError
