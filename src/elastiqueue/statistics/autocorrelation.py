"""The integrated autocorrelation time of simulated paths: how long they remember.

    tau = int_0^inf rho(t) dt,    estimated by a sum up to the first lag that is `factor` times the estimate so far

(Sokal 1997). Paths of one system share their mean, so that paths which have not met yet show a long memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def _autocorrelation_time(series, factor):
    paths, n = series.shape
    mean = 0.0
    for path in series:
        for value in path:
            mean += value
    mean /= paths * n
    variance = 0.0
    for path in series:
        for value in path:
            variance += (value - mean) * (value - mean)
    if variance <= 0.0:
        return 0.0
    time = 0.5
    lag = 1
    while lag < n // 2:
        product = 0.0
        for path in series:
            for i in range(n - lag):
                product += (path[i] - mean) * (path[i + lag] - mean)
        time += product / variance
        if lag >= factor * time:
            break
        lag += 1
    return max(time, 0.5)


def autocorrelation_time(series: NDArray[np.float64], spacing: float, factor: float = 6.0) -> float:
    """Integrated autocorrelation time int_0^inf rho(t) dt of equally spaced series, in units of `spacing`'s unit.

    Parameters
    ----------
    series : shape (T,), or (P, T) for P paths of one system, whose common mean is taken.
    factor : the window is the first lag that is so many times the estimate so far (Sokal).

    For rho(t) = exp(-t / T) it is T. Zero for a constant series.
    """
    return spacing * float(_autocorrelation_time(np.ascontiguousarray(np.atleast_2d(series), np.float64), factor))
