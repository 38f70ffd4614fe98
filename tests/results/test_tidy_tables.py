"""Tidy tables: texts stay texts, and what is missing is missing."""

from __future__ import annotations

import pytest

from elastiqueue.results.tidy_tables import read_table, write_rows, write_table


@pytest.mark.parametrize("label", ["NA", "nan", "null", "None", "1", "1e5", "true", "-inf", "2024-05-01", "a,b"])
def test_a_label_is_a_text_whatever_it_looks_like(label, tmp_path):
    write_rows([{"label": label, "model": "tabs", "mean": 1.5, "se": float("nan")}], tmp_path / "one.csv")
    table = read_table(tmp_path / "one.csv")
    assert table["label"].tolist() == [label]
    assert table["se"].isna().all()
    write_table(table, tmp_path / "two.csv")
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
