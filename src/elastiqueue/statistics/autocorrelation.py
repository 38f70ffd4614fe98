"""The integrated autocorrelation time of a series: how long a simulated path remembers.

    tau = int_0^inf rho(t) dt,    estimated by a sum up to the first lag that is `factor` times the estimate so far

(Sokal 1997).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def _autocorrelation_time(series, factor):
    n = series.size
    mean = 0.0
    for value in series:
        mean += value
    mean /= n
    variance = 0.0
    for value in series:
        variance += (value - mean) * (value - mean)
    if variance <= 0.0:
        return 0.0
    time = 0.5
    lag = 1
    while lag < n // 2:
        product = 0.0
        for i in range(n - lag):
            product += (series[i] - mean) * (series[i + lag] - mean)
        time += product / variance
        if lag >= factor * time:
            break
        lag += 1
    return max(time, 0.5)


def autocorrelation_time(series: NDArray[np.float64], spacing: float, factor: float = 6.0) -> float:
    """Integrated autocorrelation time int_0^inf rho(t) dt of an equally spaced series, in units of `spacing`'s unit.

    The window is the first lag that is `factor` times the estimate so far (Sokal). For rho(t) = exp(-t / T) it is T.
    Zero for a constant series.
    """
    return spacing * float(_autocorrelation_time(np.ascontiguousarray(series, np.float64), factor))
