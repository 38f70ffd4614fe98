"""The error of the user's that is answered by one line; apart from all else, so that it costs nothing to import."""


class ConfigError(ValueError):
    """An error that the user can mend; its text is one line: key, value, what is allowed."""
