"""The few lines that make a training go on, to be written by hand."""

from __future__ import annotations

_TORCH = """\
from jupyter_hpc.training import Run

with Run(model=model, optimizer=optimizer, every="10 min") as run:
    for epoch in run.epochs(EPOCHS):
        for batch in run.batches(loader):
            ...
"""
_LIGHTNING = """\
import os
folder = os.environ.get("JUPYTER_HPC_CHECKPOINTS", "checkpoints")
last = os.path.join(folder, "last.ckpt")
saving = ModelCheckpoint(dirpath=folder, save_last=True)
trainer = Trainer(..., callbacks=[saving])
trainer.fit(model, ..., ckpt_path=last if os.path.exists(last) else None)
"""
_TRANSFORMERS = """\
import os
from transformers.trainer_utils import get_last_checkpoint
folder = os.environ.get("JUPYTER_HPC_CHECKPOINTS", "checkpoints")
os.makedirs(folder, exist_ok=True)
arguments = TrainingArguments(folder, save_strategy="epoch", save_total_limit=2)
trainer = Trainer(model, arguments, ...)
trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
"""
RECIPES = {"torch": _TORCH, "lightning": _LIGHTNING, "transformers": _TRANSFORMERS}
