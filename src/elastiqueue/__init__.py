"""Elasticity and load balancing in clouds: simulators, exact solvers, fluid limits and the papers' experiments."""

from elastiqueue.sampling.kernel_cache import use_kernel_cache

__version__ = "0.2.0"

use_kernel_cache()
