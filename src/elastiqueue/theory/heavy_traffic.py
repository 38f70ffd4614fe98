"""Heavy traffic: the bounds on the weighted backlog near a facet, and those of the single-type routing model.

Work arrives in slots: a_j = sum of N_j sizes D_j, independent, with mean lambda_j and variance

    sigma_j^2 = E[N_j] Var D_j + Var N_j (E D_j)^2.

Near facet (c, b), eps = b - <c, lambda>, bold c_{j,m} = c_j / sqrt(M) (Maguluri, Srikant, Ying 2012, Section III):

    zeta = (<c^2, sigma^2> + eps^2) / sqrt(M)
    E<bold c, q> >= zeta / (2 eps) - B1,  B1 = b / (2 sqrt(M))           lower bound, any policy
    eps E<bold c, q> -> <c^2, sigma^2> / (2 sqrt(M))                     JSQ or power of two with MaxWeight, eps -> 0

B1 is ours (the printed constant is not known to us): the pooled queue x' = (x + <c, a> - b)^+ stays below <c, q>;
with unused service u <= b, so that E u^2 <= b E u = b eps, the stationary mean of x'^2 gives E x >= (<c^2, sigma^2> +
eps^2 - b eps) / (2 eps). The limit of eps sum_j c_j Q_j is exponential in distribution, with mean <c^2, sigma^2> / 2.

Single type (Section IV): M servers that offer independent services S_m in {0..s_max} of mean mu and variance nu_s^2,
eps = M mu - lambda, Q the sum of the backlogs:

    zeta = sigma^2 + M nu_s^2 + eps^2
    E Q >= zeta / (2 eps) - B1,  B1 = M s_max / 2          eps E Q -> (sigma^2 + M nu_s^2) / 2

(B1 again by u <= M s_max). One server of service 1 attains it up to a constant, with a mean in closed form: for unit
services u is 0 or 1, u^2 = u, hence E x = (sigma^2 + eps^2 - eps) / (2 eps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from elastiqueue.sampling.discrete import FiniteDistribution
from elastiqueue.theory.capacity import Facet


def work_variance(jobs: FiniteDistribution, sizes: FiniteDistribution) -> float:
    """Variance of the work that arrives in a slot, from the distributions of the number of jobs and of their sizes."""
    return jobs.mean * sizes.variance + jobs.variance * sizes.mean**2


@dataclass(frozen=True)
class Bounds:
    """Bounds on a weighted backlog at distance `epsilon` from the boundary.

    zeta : numerator of the leading term zeta / (2 epsilon).
    b1 : constant of the lower bound.
    limit : limit of epsilon times the mean weighted backlog as epsilon -> 0 (variances held).
    """

    epsilon: float
    zeta: float
    b1: float
    limit: float

    @property
    def leading(self) -> float:
        """zeta / (2 epsilon), to which the upper bound adds o(1 / epsilon)."""
        return self.zeta / (2.0 * self.epsilon)

    @property
    def lower(self) -> float:
        """The lower bound on the mean, never below 0."""
        return max(0.0, self.leading - self.b1)


def _positive(epsilon: float) -> float:
    if not epsilon > 0.0:
        raise ValueError(f"arrivals: must be inside the capacity region, the distance to its boundary is {epsilon:g}")
    return epsilon


def facet_bounds(c: Sequence[float], b: float, servers: int, epsilon: float, variances: Sequence[float]) -> Bounds:
    """Bounds on E<bold c, q> at distance `epsilon` from the facet (c, b), for variances sigma_j^2 of the work.

    Raises ValueError unless epsilon > 0.
    """
    spread = math.fsum(x * x * v for x, v in zip(c, variances, strict=True))
    root = math.sqrt(servers)
    return Bounds(_positive(epsilon), (spread + epsilon**2) / root, b / (2.0 * root), spread / (2.0 * root))


def exponential_mean(c: Sequence[float], variances: Sequence[float]) -> float:
    """Mean <c^2, sigma^2> / 2 of the exponential limit of eps sum_j c_j Q_j (divide by sqrt(M) for <bold c, q>)."""
    return math.fsum(x * x * v for x, v in zip(c, variances, strict=True)) / 2.0


def approach(point: Sequence[Fraction], facet: Facet, epsilon: Fraction) -> tuple[Fraction, ...]:
    """lambda^(eps) = lambda^k - eps c^k, arrival rates at distance `epsilon` from a point of a facet.

    |normal| is rational, or is taken with 200 digits: what is decided on such rates is what exact ones decide, since
    A - eps B / |normal| = 0 with rational A, B and an irrational |normal| means A = B = 0.
    """
    square = sum(x * x for x in facet.normal)
    root = Fraction(math.isqrt(square))
    if root * root != square:
        root = Fraction(math.isqrt(square * 10**400), 10**200)
    rates = tuple(x - epsilon * n / root for x, n in zip(point, facet.normal, strict=True))
    if not epsilon > 0 or min(rates) < 0:
        raise ValueError(f"epsilon = {float(epsilon)}: must be > 0 and leave every arrival rate >= 0")
    return rates


def single_type_bounds(servers: int, epsilon: float, variance: float, service: FiniteDistribution) -> Bounds:
    """Bounds on E sum_m q_m for identical servers, one job type, any routing (Section IV).

    epsilon : mean service of all servers less the work per slot, > 0. variance : of the work that arrives in a slot.
    """
    spread = variance + servers * service.variance
    return Bounds(_positive(epsilon), spread + epsilon**2, servers * service.values[-1] / 2.0, spread / 2.0)


def unit_server_mean(rate: float, variance: float) -> float:
    """E q at slot ends for one server of one unit per slot, integer work of this mean and variance: exact."""
    epsilon = _positive(1.0 - rate)
    return (variance + epsilon**2 - epsilon) / (2.0 * epsilon)
