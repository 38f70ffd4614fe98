"""The papers' claims, judged on the results of a run."""
