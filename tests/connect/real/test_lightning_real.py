"""Lightning on two devices in a session's notebook, and in a script that a cell starts."""

from __future__ import annotations

import pytest

from tests.batch.torch_site import link_site
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import ENV_SETUP
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import connected, run

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

_TRAIN = """
import lightning, torch
from torch.utils.data import DataLoader

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_end(self):
        print(f"[rank {self.global_rank} of {self.trainer.world_size}]", flush=True)

quiet = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)
trainer = lightning.Trainer(accelerator="cpu", devices=2, max_steps=2, **quiet)
trainer.fit(Model(), DataLoader(torch.randn(16, 4), batch_size=2))
"""


def test_two_devices_in_a_cell_and_in_a_script(cluster: Cluster) -> None:
    laptop, home = cluster.laptop("alice", "lightning"), cluster.home("alice")
    link_site(home / "lightning-packages")
    setup = [*ENV_SETUP, "export PYTHONPATH=/home/alice/lightning-packages:$PYTHONPATH"]
    laptop.write_profile("mini", {"environment": {"setup": setup}})
    (home / "train.py").write_text(_TRAIN, encoding="utf-8")
    with connected(laptop, "mini", "--mem", "5G", "--cpus", "2") as session:
        session.wait_for("ready", 120)
        kernel = Kernel(laptop)
        for code in (_TRAIN, "!python ~/train.py 2>&1"):
            printed = kernel.run(code, 600)
            for rank in range(2):
                assert f"[rank {rank} of 2]" in printed, printed
        run(laptop, "stop", "mini")
