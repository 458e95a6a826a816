"""A run that was ended and goes on equals one that was left alone, bit for bit."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training import Run
from tests.training.loops import EPOCHS, STEPS, Killed, ended, in_parts, loader, train

#: The first of them waits until torch is loaded, on a busy machine for minutes.
pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.timeout(400)]

ENDS = (signal.SIGUSR1, signal.SIGTERM, Killed)


def same(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name in ("order", "losses", "weights", "optimizer", "random"):
        assert first[name] == second[name], name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, torch: Any) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("seed", range(4))
def test_ended_at_random_steps_equals_uninterrupted(
    tmp_path: Path, whole: dict[str, Any], seed: int
) -> None:
    draw = random.Random(seed)
    steps = sorted(draw.sample(range(1, STEPS), 5))
    ends = [(step, draw.choice(ENDS)) for step in steps]
    # By the clock or not: what a killed part had not saved is done again.
    found = in_parts(tmp_path / "run", ends, every=draw.choice([0.001, 1000]))
    same(found, whole)
    assert len(whole["order"]) == STEPS and (tmp_path / "run" / "DONE").exists()


@pytest.mark.parametrize("kind", ["workers", "persistent", "generator", "weighted", "iterable"])
def test_every_kind_of_loader_goes_on_at_its_batch(tmp_path: Path, torch: Any, kind: str) -> None:
    data = torch.utils.data

    def made() -> Any:
        if kind == "workers":
            return loader(num_workers=2)
        if kind == "persistent":
            return loader(num_workers=1, persistent_workers=True)
        if kind == "generator":
            return loader(generator=torch.Generator().manual_seed(3))
        if kind == "weighted":
            weights = torch.arange(44, dtype=torch.float64) + 1
            return loader(shuffle=False, sampler=data.WeightedRandomSampler(weights, 44))

        class Stream(data.IterableDataset):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Any:
                return iter([(n, torch.ones(4) * n / 44) for n in range(44)])

        return data.DataLoader(Stream(), batch_size=8)

    ends = [(4, signal.SIGUSR1), (9, Killed), (10, signal.SIGUSR1), (15, signal.SIGUSR1)]
    found = in_parts(tmp_path / "parts", ends, loader=made, every=1000)
    same(found, train(tmp_path / "whole", loader=made))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on_in_the_middle(tmp_path: Path, torch: Any, workers: int) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    from tests.training.loops import Noisy

    def made() -> Any:
        return StatefulDataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=workers)

    ends = [(4, signal.SIGUSR1), (9, Killed), (10, signal.SIGUSR1)]
    found = in_parts(tmp_path / "parts", ends, loader=made, every=1000)
    same(found, train(tmp_path / "whole", loader=made))


def test_a_stateful_loader_keeps_the_position_of_a_stream(tmp_path: Path, torch: Any) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            self.at, self.read = 0, 0

        def __iter__(self) -> Any:
            while self.at < 44:
                self.at, self.read = self.at + 1, self.read + 1
                yield self.at, torch.ones(4) * self.at / 44
            self.at = 0

        def state_dict(self) -> dict[str, Any]:
            return {"at": self.at}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.at = state["at"]

    streams: list[Any] = []

    def made() -> Any:
        streams.append(Stream())
        return StatefulDataLoader(streams[-1], batch_size=8)

    ends = [(4, signal.SIGUSR1), (9, Killed), (10, signal.SIGUSR1)]
    found = in_parts(tmp_path / "parts", ends, loader=made, every=1000)
    assert sum(stream.read for stream in streams) < 44 * EPOCHS + 44, "read on, not once more"
    same(found, train(tmp_path / "whole", loader=made))


def test_loaders_that_are_made_in_each_epoch_are_given_up(tmp_path: Path, torch: Any) -> None:
    alive: list[Any] = []
    with Run(folder=tmp_path / "run", every=1000) as run:
        for _ in run.epochs(3):
            data = loader()
            alive.append(weakref.ref(data))
            list(run.batches(data))
        del data
        gc.collect()
        assert [each() is None for each in alive] == [True, True, False]


def test_a_chain_hears_of_the_end_also_in_a_folder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    job = tmp_path / "checkpoints"
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(job))
    for name in ("first", "second"):
        with ended() as codes:
            train(tmp_path / name, 9, signal.SIGUSR1)
        assert codes == [85] and not (job / "DONE").exists(), "the one before is not the last"
        train(tmp_path / name)
        assert (job / "DONE").exists() and (tmp_path / name / "DONE").exists()


def test_metrics_of_a_part_that_saved_nothing_are_not_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    monkeypatch.delenv("JUPYTER_HPC_OUTPUT", raising=False)
    for _ in range(2):
        with ended(), Run(folder=tmp_path / "run") as run:
            run.log(loss=1)
            raise Killed
        rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        assert len(rows) == 1


def test_the_order_is_that_of_the_plain_loader(tmp_path: Path, torch: Any) -> None:
    torch.manual_seed(5)
    plain = [batch[0].tolist() for batch in loader()]
    torch.manual_seed(5)
    with Run(folder=tmp_path / "run") as run:
        assert [batch[0].tolist() for batch in run.batches(loader())] == plain


def test_workers_do_not_die_of_the_jobs_signals(tmp_path: Path, torch: Any) -> None:
    """Slurm sends TERM to all processes of a step: the last checkpoint still needs its data."""
    data = loader(num_workers=2)
    before = signal.getsignal(signal.SIGTERM)
    with ended() as codes, Run(folder=tmp_path / "run") as run:
        for _ in run.epochs(1):
            for number, _ in enumerate(run.batches(data)):
                if number == 1:
                    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
                    workers = [int(pid) for pid in children.read_text().split()]
                    names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in workers}
                    own = Path("/proc/self/cmdline").read_bytes()
                    for pid in workers:
                        if names[pid] == own:
                            os.kill(pid, signal.SIGTERM)
                            os.kill(pid, signal.SIGUSR1)
                    os.kill(os.getpid(), signal.SIGTERM)
    assert codes == [143] and signal.getsignal(signal.SIGTERM) is before
    with Run(folder=tmp_path / "run") as run:
        assert run.resumed and run.step == 2


def test_handlers_of_others_still_run(tmp_path: Path, torch: Any) -> None:
    heard: list[str] = []
    old = {
        code: signal.signal(code, lambda *_, name=code.name: heard.append(name))
        for code in (signal.SIGUSR1, signal.SIGTERM)
    }
    try:
        for code, number in ((signal.SIGUSR1, 85), (signal.SIGTERM, 143)):
            with ended() as codes:
                train(tmp_path / "run", 4 if number == 85 else 8, code)
            assert codes == [number]
        assert heard == ["SIGUSR1", "SIGTERM"]
    finally:
        for code, handler in old.items():
            signal.signal(code, handler)


def test_the_id_stays_and_trackers_know_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    monkeypatch.delenv("JUPYTER_HPC_OUTPUT", raising=False)
    for name in ("WANDB_RUN_ID", "WANDB_RESUME", "COMET_EXPERIMENT_KEY", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # given back after the test
        monkeypatch.delenv(name)

    class Active:
        class info:
            run_id = "ml-1"

    class Mlflow:
        @staticmethod
        def active_run() -> Any:
            return Active if threading.current_thread() is threading.main_thread() else None

    monkeypatch.setitem(sys.modules, "mlflow", Mlflow)
    with ended(), Run(folder=tmp_path / "run") as run:
        raise Killed  # before its first checkpoint
    first = run.id
    assert "WANDB_RUN_ID" not in os.environ
    with Run(folder=tmp_path / "other") as run:
        assert run.id == os.environ["WANDB_RUN_ID"] != first, "two trainings are two runs there"
    with Run(folder=tmp_path / "run") as run:
        list(run.batches([1, 2]))
        names = ("WANDB_RUN_ID", "COMET_EXPERIMENT_KEY")
        assert [os.environ[name] for name in names] == [run.id] * 2 == [first] * 2
    with Run(folder=tmp_path / "run") as run:
        assert os.environ["MLFLOW_RUN_ID"] == "ml-1"
        # TensorBoard's writer drops what came after the checkpoint.
        assert (run.log_dir, run.step) == (tmp_path / "run" / "tensorboard", 2)
        # One that has ended by the last checkpoint is not forgotten for another one.
        monkeypatch.setattr(Mlflow, "active_run", lambda: None)
        wandb = SimpleNamespace(run=SimpleNamespace(id=run.id))
        monkeypatch.setitem(sys.modules, "wandb", wandb)
        list(run.batches([3]))
    known = json.loads((tmp_path / "run" / ".run" / "trackers.json").read_text())
    assert known == {"mlflow": "ml-1", "wandb": first}


def test_metrics_reach_the_table_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    output = tmp_path / "output"
    monkeypatch.setenv("JUPYTER_HPC_OUTPUT", str(output))
    in_parts(tmp_path / "run", [(8, signal.SIGUSR1), (14, Killed)], every=1000)
    last = json.loads((output / "metrics.json").read_text())
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == list(range(EPOCHS))  # none twice
    assert last["loss"] == rows[-1]["loss"] and last["step"] == STEPS
    best = min(rows, key=lambda row: row["loss"])
    found = json.loads((tmp_path / "run" / "best.json").read_text())
    assert found["value"] == best["loss"] and found["step"] == best["step"]


def test_more_epochs_go_on_after_the_end(tmp_path: Path, torch: Any) -> None:
    for count in (1, 1, 3):
        with Run(folder=tmp_path / "run") as run:
            seen = list(run.epochs(count))
    assert seen == [1, 2] and (tmp_path / "run" / "DONE").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": 3}, "without state_dict"),
        ({"every": "soon"}, "no length of time"),
        ({"keep": 0}, "keeps no checkpoint"),
        ({"best": "least:loss"}, "not known"),
    ],
)
def test_what_cannot_be_right_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Run(**options)


def test_what_cannot_be_saved_is_said_before_hours(tmp_path: Path, torch: Any) -> None:
    class Odd:
        def state_dict(self) -> dict[str, Any]:
            return {"inner": {"path": Path("x")}}

        def load_state_dict(self, state: Any) -> None: ...

    with pytest.raises(UsageError, match=r"parts\.odd\.inner\.path is a PosixPath"):
        Run(folder=tmp_path / "run", odd=Odd()).__enter__()


def test_another_model_is_not_taken_for_damage(tmp_path: Path, torch: Any) -> None:
    with Run(folder=tmp_path / "run", model=torch.nn.Linear(1, 1)) as run:
        list(run.epochs(1))
    with pytest.raises(UsageError, match="does not fit model"):
        Run(folder=tmp_path / "run", model=torch.nn.Linear(2, 1)).__enter__()


def test_processes_that_do_not_know_of_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(UsageError, match="4 processes run this training and do not know"):
        Run(folder=tmp_path / "run").__enter__()
