"""Phase-type service times: validation, moments, named distributions of mean one.

A service passes through phases 1..K of exponential lengths with rates gamma_j. It starts in phase j with probability
r_j, moves from phase k to phase j with probability r_kj and ends after phase k with probability r_k0 = 1 - sum_j r_kj.
With R = (r_kj), r = (r_j) and T = diag(gamma) (I - R):

    v = r (I - R)^(-1)             expected visits to each phase in one service
    m = T^(-1) 1                   mean residual service, given the phase in progress
    mean = sum_j v_j / gamma_j = r m        second moment = 2 r T^(-1) m        scv = second moment / mean^2 - 1

v_j is eta_j / eta_0 of Mukherjee, Dhara, Borst, van Leeuwaarden (2017), section 4.

Everything is computed by elimination in plain floats, so that the numbers do not depend on a linear-algebra library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_ROUNDING = 1e-12  # slack for sums that should be one, and for probabilities written in decimals


def _solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve ``matrix x = right`` by Gaussian elimination with row pivoting (small K, plain floats)."""
    n = len(right)
    rows = [[*map(float, matrix[i]), float(right[i])] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        if rows[pivot][i] == 0.0:
            raise ZeroDivisionError("singular matrix")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            if factor != 0.0:
                for j in range(i, n + 1):
                    rows[k][j] -= factor * rows[i][j]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - math.fsum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return x


@dataclass(frozen=True)
class PhaseType:
    """A phase-type distribution; phases are numbered 0..K-1 in the arrays.

    Parameters
    ----------
    initial : K probabilities r_j that sum to 1 (no service of length zero)
    rates : K positive rates gamma_j, per unit of time
    routing : K x K, r_kj >= 0 with row sums <= 1; the rest of a row is the probability that the service ends

    A self-loop r_jj < 1 is removed on construction without changing the distribution (gamma_j <- gamma_j (1 - r_jj),
    the other entries of the row divided by 1 - r_jj), so ``routing`` always has a zero diagonal.

    Raises
    ------
    ValueError
        One line with key, value and what is allowed: wrong shapes, negative entries, ``initial`` that does not sum to
        1, a row sum above 1, a phase from which the service never ends.
    """

    initial: tuple[float, ...]
    rates: tuple[float, ...]
    routing: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        initial, rates = tuple(map(float, self.initial)), tuple(map(float, self.rates))
        routing = tuple(tuple(map(float, row)) for row in self.routing)
        phases = len(rates)
        if len(initial) != phases:
            raise ValueError(f"initial = {list(initial)}: must have {phases} entries, one per rate")
        if len(routing) != phases or any(len(row) != phases for row in routing):
            raise ValueError(
                f"routing = {[list(row) for row in routing]}: must be {phases} x {phases}, one row per phase"
            )
        if min(initial) < 0 or abs(math.fsum(initial) - 1) > _ROUNDING:
            raise ValueError(f"initial = {list(initial)}: must be probabilities that sum to 1")
        if min(rates) <= 0:
            raise ValueError(f"rates = {list(rates)}: must be > 0")
        for k, row in enumerate(routing):
            if min(row) < 0 or math.fsum(row) > 1 + _ROUNDING:
                raise ValueError(f"routing[{k}] = {list(row)}: must be probabilities with a sum <= 1")
        ends = {k for k in range(phases) if 1 - math.fsum(routing[k]) > _ROUNDING}
        while True:
            more = {k for k in range(phases) if k not in ends and any(routing[k][j] > 0 for j in ends)}
            if not more:
                break
            ends |= more
        if len(ends) < phases:
            never = [k for k in range(phases) if k not in ends]
            raise ValueError(f"routing = {[list(row) for row in routing]}: must end from every phase, not from {never}")
        loops = [routing[k][k] for k in range(phases)]
        rates = tuple(rate * (1 - loop) if loop else rate for rate, loop in zip(rates, loops, strict=True))
        routing = tuple(
            tuple(0.0 if j == k else (row[j] / (1 - loops[k]) if loops[k] else row[j]) for j in range(phases))
            for k, row in enumerate(routing)
        )
        object.__setattr__(self, "initial", initial)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "routing", routing)

    # ---- moments -----------------------------------------------------------------------------------------------

    @property
    def phases(self) -> int:
        """Number of phases K."""
        return len(self.rates)

    @property
    def exit(self) -> tuple[float, ...]:
        """Probabilities r_k0 = 1 - sum_j r_kj that the service ends after phase k, shape (K,)."""
        out = []
        for row in self.routing:
            rest = 1 - math.fsum(row)
            out.append(rest if rest > _ROUNDING else 0.0)
        return tuple(out)

    @property
    def is_exponential(self) -> bool:
        """True for a single phase: the kernels for exponential service apply as they stand."""
        return self.phases == 1

    def visits(self) -> tuple[float, ...]:
        """Expected visits v_j to each phase in one service, v = r (I - R)^(-1), shape (K,)."""
        n = self.phases
        transposed = [[(1.0 if j == k else 0.0) - self.routing[k][j] for k in range(n)] for j in range(n)]
        return tuple(_solve(transposed, self.initial))

    def residual(self) -> tuple[float, ...]:
        """Mean residual service m_j given the phase in progress, m = T^(-1) 1, shape (K,), in units of time."""
        return self._resolvent([1.0] * self.phases)

    def _resolvent(self, right: Sequence[float]) -> tuple[float, ...]:
        """T^(-1) right, with T = diag(gamma) (I - R)."""
        n = self.phases
        generator = [
            [self.rates[k] * ((1.0 if j == k else 0.0) - self.routing[k][j]) for j in range(n)] for k in range(n)
        ]
        return tuple(_solve(generator, right))

    def mean(self) -> float:
        """Mean service time."""
        return math.fsum(r * m for r, m in zip(self.initial, self.residual(), strict=True))

    def scv(self) -> float:
        """Squared coefficient of variation, variance / mean^2."""
        second = 2 * math.fsum(r * m for r, m in zip(self.initial, self._resolvent(self.residual()), strict=True))
        return second / self.mean() ** 2 - 1

    def scaled_to_mean_one(self) -> PhaseType:
        """The same distribution on another time scale, with mean 1."""
        mean = self.mean()
        return PhaseType(self.initial, tuple(rate * mean for rate in self.rates), self.routing)

    # ---- by name, all of mean 1 --------------------------------------------------------------------------------

    @classmethod
    def exponential(cls) -> PhaseType:
        """The exponential distribution."""
        return cls((1.0,), (1.0,), ((0.0,),))

    @classmethod
    def erlang(cls, k: int) -> PhaseType:
        """Erlang distribution: k phases in series, each of rate k; scv = 1/k."""
        routing = tuple(tuple(1.0 if j == i + 1 else 0.0 for j in range(k)) for i in range(k))
        return cls((1.0,) + (0.0,) * (k - 1), (float(k),) * k, routing)

    @classmethod
    def hyperexponential(cls, scv: float) -> PhaseType:
        """Mixture of two exponentials with balanced means, p_1 / gamma_1 = p_2 / gamma_2 = 1/2, for scv >= 1.

        p_1 = (1 + sqrt((scv - 1) / (scv + 1))) / 2 and gamma_i = 2 p_i.
        """
        p = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
        return cls((p, 1 - p), (2 * p, 2 * (1 - p)), ((0.0, 0.0), (0.0, 0.0)))

    @classmethod
    def coxian(cls, scv: float) -> PhaseType:
        """Two-phase Coxian distribution by Marie's fit, for scv >= 1/2.

        gamma_1 = 2, gamma_2 = 1/scv, and phase 2 follows phase 1 with probability 1 / (2 scv) (R. Marie, "Calculating
        equilibrium probabilities for lambda(n)/C_k/1/N queues", 1980). At scv = 1/2 it is Erlang-2.
        """
        return cls((1.0, 0.0), (2.0, 1 / scv), ((0.0, 1 / (2 * scv)), (0.0, 0.0)))

    @classmethod
    def from_config(cls, value: Any) -> PhaseType:
        """The distribution that a scenario's ``service`` names; one given by its matrices is scaled to mean 1.

        ``"exponential"``, ``{"erlang": k}``, ``{"hyperexponential": scv}``, ``{"coxian": scv}`` or
        ``{"phase_type": {"initial": [...], "rates": [...], "routing": [[...]]}}``.
        """
        if value == "exponential":
            return cls.exponential()
        ((name, argument),) = value.items()
        if name in NAMED:
            return NAMED[name].fit(argument)
        given = cls(argument["initial"], argument["rates"], argument["routing"])
        return given if abs(given.mean() - 1) <= _ROUNDING else given.scaled_to_mean_one()


@dataclass(frozen=True)
class Named:
    """A named distribution of mean 1 with one parameter: what makes it, and what the parameter may be."""

    fit: Callable[[Any], PhaseType]
    title: str
    number: type
    least: float
    most: float
    parameter: str
    symbol: str = "scv"


NAMED = {
    "erlang": Named(
        PhaseType.erlang, "Service times of an Erlang distribution: k exponential phases in series, mean 1.",
        int, 1, 64, "Number of phases; the squared variation is 1/k.", "k",
    ),
    "hyperexponential": Named(
        PhaseType.hyperexponential,
        "Service times of the two-phase hyperexponential distribution with balanced means, mean 1.", float, 1, 1e4,
        "Squared coefficient of variation, >= 1.",
    ),
    "coxian": Named(
        PhaseType.coxian, "Service times of a two-phase Coxian distribution, mean 1.", float, 0.5, 1e4,
        "Squared coefficient of variation, >= 0.5.",
    ),
}  # fmt: skip


def alternatives() -> str:
    """What the key `service` may be, for messages."""
    named = ", ".join(f"{{{name}: {row.symbol}}}" for name, row in NAMED.items())
    return f"exponential, {named} or {{phase_type: {{initial, rates, routing}}}}"


def phase_counts(busy: int, service: PhaseType) -> list[int]:
    """`busy` servers in the phase mix of long-run service, v_j / gamma_j / mean, rounded by largest remainder."""
    mix = [v / rate for v, rate in zip(service.visits(), service.rates, strict=True)]
    ideal = [busy * part / math.fsum(mix) for part in mix]
    counts = [math.floor(value) for value in ideal]
    by_remainder = sorted(range(len(mix)), key=lambda j: (counts[j] - ideal[j], j))
    for j in by_remainder[: busy - sum(counts)]:
        counts[j] += 1
    return counts
