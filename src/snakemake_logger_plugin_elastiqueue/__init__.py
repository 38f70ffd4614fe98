"""Found by Snakemake by its name; see `elastiqueue.workflow.progress`."""

from elastiqueue.workflow.progress import LogHandler

__all__ = ["LogHandler"]
