"""Contrasts: numbers d, linear in the estimates or in their logarithms, that must be positive.

With its standard error s and f degrees of freedom, t = d / s, and

    p for = P(T_f > t), small when the statement holds          p against = P(T_f < t), small when it fails.

A contrast without scatter is judged by its sign where it is exact, or no two of at least 30 replications differed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from elastiqueue.claims.quantities import Measured, text

REPLICATIONS_WITHOUT_SCATTER = 30
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Contrast:
    """A number that a part compares with a bound. `value` is None where the run does not give it; `why` says so."""

    what: str
    value: Measured | None
    relation: Literal["<", ">"] = "<"
    bound: float = 0.0
    why: str = ""
    verdict: str = field(default=UNDECIDED, compare=False)

    @property
    def margin(self) -> float:
        """How far the value is on the right side of the bound; nan where there is none."""
        if self.value is None:
            return math.nan
        return (self.bound - self.value.mean) * (1 if self.relation == "<" else -1)

    @property
    def margin_in_se(self) -> float:
        if self.value is None or not self.margin:
            return 0.0
        return self.margin / self.value.se if self.value.se > 0 else math.copysign(math.inf, self.margin)

    def p_values(self) -> tuple[float, float]:
        """p for and p against."""
        from scipy.special import stdtr

        value, margin = self.value, self.margin
        if value is None or not math.isfinite(margin) or not math.isfinite(value.variance):
            return 1.0, 1.0
        if value.variance == 0.0:
            if value.fewest < REPLICATIONS_WITHOUT_SCATTER or margin == 0:
                return 1.0, 1.0
            return (0.0, 1.0) if margin > 0 else (1.0, 0.0)
        t, df = margin / value.se, min(value.df, 1e9)
        return float(stdtr(df, -t)), float(stdtr(df, t))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Two-sided interval of the value whose ends are those of the one-sided tests at level alpha."""
        from scipy.special import stdtrit

        if self.value is None:
            return math.nan, math.nan
        half = -float(stdtrit(min(self.value.df, 1e9), alpha)) * self.value.se
        return self.value.mean - half, self.value.mean + half

    def record(self, alpha: float) -> dict[str, Any]:
        """The contrast as it stands in claims.json."""

        def number(value: float) -> float | None:
            return float(f"{value:.10g}") if math.isfinite(value) else None

        value = self.value or Measured(math.nan, math.nan, math.nan)
        return {
            "what": self.what,
            "verdict": self.verdict,
            **{name: number(getattr(value, name)) for name in ("mean", "se", "df")},
            "interval": [number(end) for end in self.interval(alpha)],
            "requirement": f"{self.relation} {text(self.bound)}",
            "margin_in_se": number(self.margin_in_se),
            **dict(zip(("p_for", "p_against"), map(number, self.p_values()), strict=True)),
            **({"why": self.why} if self.why else {}),
        }
