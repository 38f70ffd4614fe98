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


def test_a_key_of_the_users_may_be_a_number_where_another_models_is_a_text(tmp_path):
    """`level` is job or workload in a cluster, and a fraction in a policy of the examples."""
    for level in ("workload", 0.25):
        write_rows([{"label": "", "level": level}], tmp_path / "one.csv")
        assert read_table(tmp_path / "one.csv")["level"].tolist() == [level]
