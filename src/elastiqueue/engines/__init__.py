"""The engines: they read models and give sample paths, exact stationary distributions and fluid limits."""
