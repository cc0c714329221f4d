"""A Dask cluster of real processes on this machine: same results as local, a worker that dies costs only time."""

from __future__ import annotations

import os
import signal

import pytest

from cohsim.cli.main import main
from cohsim.sweep import DaskBackend, Point, SerialBackend, Sweep, load_sweep, run_sweep
from cohsim.sweep.point import DONE

distributed = pytest.importorskip("distributed")

SWEEP = Sweep(Point("t4240", "micro/atomic_inc", warmup_ns=1_000.0, measure_ns=200_000.0), {"cpus": (1, 2, 4), "seed": (1, 2, 3, 4)})


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as running:
        yield running


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return run_sweep(SWEEP, tmp_path_factory.mktemp("local") / "s.h5", SerialBackend())


def test_a_cluster_gives_the_same_bit_for_bit_although_a_worker_is_killed(cluster, local, tmp_path):
    backend = DaskBackend(cluster.scheduler_address)
    victims = []

    def kill_one(done: int, _points: int) -> None:
        if done == 2:
            busy = backend._client.processing()
            address = next(worker for worker, tasks in busy.items() if tasks)
            victims.append(backend._client.run(os.getpid, workers=[address])[address])
            os.kill(victims[0], signal.SIGKILL)

    try:
        result = run_sweep(SWEEP, tmp_path / "s.h5", backend, kill_one)
    finally:
        backend.close()
    assert len(victims) == 1
    assert result.count(DONE) == 12
    assert [p["digest"] for p in result.points] == [p["digest"] for p in local.points] and len({p["digest"] for p in local.points}) == 12
    assert [p["summary"] for p in result.points] == [p["summary"] for p in local.points]


def test_the_command_runs_on_the_cluster(cluster, local, tmp_path, capsys):
    arguments = ["--cpus", "1,2,4", "--seeds", "4", "--warmup", "1us", "--measure", "200us", "--dask", cluster.scheduler_address]
    assert main(["sweep", "t4240", "micro/atomic_inc", *arguments, "-o", str(tmp_path / "s.h5")]) == 0
    assert "12 points: 12 done" in capsys.readouterr().out
    assert [p["digest"] for p in load_sweep(tmp_path / "s.h5").points] == [p["digest"] for p in local.points]


def test_no_scheduler_is_an_input_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cohsim.sweep.backends.DASK_TIMEOUT_S", 1)
    assert main(["sweep", "t4240", "micro/atomic_inc", "--dask", "tcp://127.0.0.1:9", "-o", str(tmp_path / "s.h5")]) == 2
    assert "--dask: no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_without_workers_is_an_input_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cohsim.sweep.backends.DASK_TIMEOUT_S", 1)
    with distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as empty:
        assert main(["sweep", "t4240", "micro/atomic_inc", "--dask", empty.scheduler_address, "-o", str(tmp_path / "s.h5")]) == 2
    assert "has no worker; start some with 'dask worker" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
