"""A run whose files are kept in no folder of this machine: an S3 bucket, and a plain file store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

pytestmark = pytest.mark.slow
RUN = {
    "run": "stored", "output": "results/stored", "replications": 4, "seed": 1,
    "experiments": {
        "standby": {
            "scenario": {
                "model": "tabs", "servers": 10, "arrival_rate": 0.3, "setup_rate": 1, "buffer": 5, "horizon": "auto",
                "warm_up": "auto",
            },
            "grid": {"standby_rate": [1, 0.1]}, "block": 2, "metrics": ["mean_wait", "power"],
        },
    },
    "figures": {
        "wait": {
            "experiments": ["standby"], "x": {"value": "1 / standby_rate", "label": "mean standby period"},
            "columns": [{"y": {"value": "mean_wait", "label": "mean wait"}}], "caption": "Wait.",
        },
    },
}  # fmt: skip
# Bytes that are determined: the others tell of time and place.
FILES = ("data/wait.csv", "wait.pdf", "wait.png", "summaries/standby.csv")


def _run(folder: Path, *arguments: str) -> None:
    folder.mkdir()
    (folder / "run.yaml").write_text(yaml.safe_dump(RUN))
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--configfile", "run.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("SNAKEMAKE_PROFILE", None)
    done = subprocess.run(
        [*command, "--cores", "2", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the same run in a folder."""
    folder = tmp_path_factory.mktemp("run") / "here"
    _run(folder)
    return {name: (folder / "results/stored" / name).read_bytes() for name in FILES}


def test_a_bucket_gets_the_same_bytes(here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("snakemake_storage_plugin_s3")
    server_module = pytest.importorskip("moto.server")
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        _run(
            tmp_path / "there", "--profile", str(ROOT / "profiles/s3"), "--default-storage-prefix", "s3://runs/papers",
            "--storage-s3-endpoint-url", url, "--storage-s3-access-key", "x", "--storage-s3-secret-key", "x",
            "--storage-s3-region", "us-east-1",
        )  # fmt: skip
        stored = {
            name: client.get_object(Bucket="runs", Key=f"papers/results/stored/{name}")["Body"].read() for name in FILES
        }
    finally:
        server.stop()
    assert stored == here
    assert not list((tmp_path / "there/results").rglob("*.csv"))


def test_a_file_store_gets_the_same_bytes(here, tmp_path: Path) -> None:
    pytest.importorskip("snakemake_storage_plugin_fs")
    if shutil.which("rsync") is None:
        pytest.skip("the plugin for file stores copies by rsync, which is not installed")
    store = tmp_path / "store"
    store.mkdir()
    _run(tmp_path / "there", "--default-storage-provider", "fs", "--default-storage-prefix", str(store))
    assert {name: (store / "results/stored" / name).read_bytes() for name in FILES} == here
