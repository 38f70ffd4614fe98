"""The engines: they read models and give sample paths, exact stationary laws and fluid limits."""
