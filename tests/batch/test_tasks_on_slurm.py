"""Two nodes with two GPUs each on a real Slurm: four tasks, placed two and two."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.test_on_slurm import SMALL, User, logs
from tests.batch.torch_site import lightning_site
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.layout import ENV_PATH

SHOW = (
    "import os, platform\n"
    "names = 'RANK LOCAL_RANK WORLD_SIZE SLURM_TASKS_PER_NODE SLURM_NTASKS_PER_NODE'.split()\n"
    "print('placed', platform.node(), *(os.environ.get(name, '-') for name in names), flush=True)"
)
#: All ranks meet where MASTER_* says, as torch's do, and each hears of every other.
MEET = """
import socket, time
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))
if rank == 0:
    server = socket.create_server(('', place[1]))
    guests = [server.accept()[0] for _ in range(world - 1)]
    heard = sorted(int(guest.recv(9)) for guest in guests)
    for guest in guests:
        guest.sendall(b'all here')
    print('met', heard, flush=True)
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            guest = socket.create_connection(place, 5)
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    guest.sendall(str(rank).encode())
    assert guest.recv(9) == b'all here'
"""
DDP = """
import torch, torch.distributed as dist
dist.init_process_group('gloo')
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
print('sum of ranks', int(total), 'of', dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""
LIGHTNING = """
import logging, torch, lightning as L
class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 1)), 1)
trainer = L.Trainer(accelerator='cpu', strategy='ddp', max_epochs=1, num_nodes=2, devices=2,
                    logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), data)
print('lightning', trainer.global_rank, 'of', trainer.world_size, trainer.local_rank,
      trainer.node_rank, flush=True)
"""

TWO_AND_TWO = ["--partition", "wide", "--nodes", "2", "--gpus", "2"]


@pytest.fixture(scope="module")
def wide(cluster_with: ClusterFactory) -> Iterator[User]:
    cluster = cluster_with(accounting=False, two_gpu_nodes=True)
    yield User(cluster, "/home/alice/tasks")
    cluster.run("login1", ["scancel", "--user=alice"])


def run_to_end(user: User, name: str, cells: list[str], *words: str, site: str = "") -> str:
    user.notebook(name, cells)
    small = [*SMALL[: SMALL.index("--gpus")], *words]
    variables = ["env", f"PYTHONPATH={site}"]
    done = user.shell([*variables, f"{ENV_PATH}/bin/jupyter-hpc", "submit", name, *small, "--json"])
    run = user.cluster.home("alice") / Path(json.loads(done)["run_dir"]).relative_to("/home/alice")
    user.wait_for_end(300)
    assert (run / "output" / "DONE").exists(), logs(run)
    return logs(run)


def placed(text: str) -> list[list[str]]:
    return sorted(line.split()[1:] for line in text.splitlines() if line.startswith("placed "))


def test_nodes_and_gpus_alone_place_four_tasks_two_and_two(wide: User) -> None:
    text = run_to_end(wide, "meet.ipynb", [SHOW, MEET], *TWO_AND_TWO)
    rows = placed(text)
    assert [row[0] for row in rows] == ["cpu01", "cpu01", "gpu01", "gpu01"], text
    assert sorted(row[1] for row in rows) == ["0", "1", "2", "3"], text
    assert [row[2] for row in rows] == ["0", "1", "0", "1"], text
    assert {tuple(row[3:]) for row in rows} == {("4", "2(x2)", "2")}, text
    assert "met [1, 2, 3]" in text


def test_one_task_can_be_called_like_one_of_several(wide: User) -> None:
    text = run_to_end(wide, "alone.ipynb", [SHOW, MEET], "--partition", "wide", "--gpus", "0")
    (row,) = placed(text)
    assert row[1:4] == ["0", "0", "1"] and "met []" in text


@pytest.mark.faults
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["torch", "lightning"])
def test_torch_and_lightning_find_their_processes(wide: User, name: str) -> None:
    cells = [SHOW, DDP if name == "torch" else LIGHTNING]
    # Simulated GPUs are none for torch, and the look at them before the program says so.
    layout = ["--partition", "wide", "--nodes", "2", "--tasks-per-node", "2", "--gpus", "0"]
    text = run_to_end(
        wide, f"{name}.ipynb", cells, *layout, "--mem", "4G", site=lightning_site(wide)
    )
    assert [row[0] for row in placed(text)] == ["cpu01", "cpu01", "gpu01", "gpu01"], text
    if name == "torch":
        assert text.count("sum of ranks 6 of 4") == 4, text
    else:
        found = sorted(re.findall(r"^lightning (\d) of (\d) (\d) (\d)", text, re.M))
        assert [each[:3] for each in found] == [
            *[("0", "4", "0"), ("1", "4", "1"), ("2", "4", "0"), ("3", "4", "1")],
        ], text
