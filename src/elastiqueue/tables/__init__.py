"""Tables of results as Markdown, TeX and CSV."""
