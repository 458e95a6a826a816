"""What the code says about its processes."""

from __future__ import annotations

import ast

import pytest

from jupyter_hpc.batch.preflight.frameworks import TrainerCall, is_distributed, trainer_calls


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import torch\nmodel.cuda()", False),
        ("import torch.distributed as dist\ndist.init_process_group('nccl')", True),
        ("import torch\ntorch.nn.DataParallel(model)", False),
        ("import lightning as L\nL.Trainer(max_epochs=3).fit(model)", True),
        ("from pytorch_lightning import Trainer\nTrainer(devices=2)", True),
        ("import lightning as L\nL.Trainer(devices=1)", False),
        ("from transformers import pipeline\npipeline('x')", False),
        ("from transformers import Trainer\nTrainer(model)", True),
        ("from accelerate import Accelerator\nAccelerator()", True),
        ("from accelerate import notebook_launcher, Accelerator\nnotebook_launcher(f)", False),
        ("import torch.multiprocessing as mp\nmp.spawn(f)\ndist.init_process_group()", False),
    ],
)
def test_programs_of_several_processes_are_known(code: str, expected: bool) -> None:
    assert is_distributed([ast.parse(code)]) is expected


def test_numbers_of_a_trainer_are_read_where_they_stand() -> None:
    code = "import lightning as L\nL.Trainer(devices=2, num_nodes=n)\nL.Trainer(num_nodes=4)"
    assert trainer_calls([ast.parse(code)]) == [TrainerCall(2, 2, None), TrainerCall(3, None, 4)]
    assert trainer_calls([ast.parse("Trainer(devices=2)")]) == []
