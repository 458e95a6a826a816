"""The few lines that make a training go on, to be written by hand.

Those for frameworks stand in docs/users/training.md as well, where the tests run them.
"""

from __future__ import annotations

#: Lets Hugging Face's Trainer save and end where `run` says so.
GO_ON_CALLBACK = """\
class GoOn(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if run.after_step(state.global_step, more=state.global_step < state.max_steps):
            control.should_save = True
            control.should_training_stop = run.is_over

    def on_save(self, args, state, control, **kwargs):
        run.seal(f"checkpoint-{state.global_step}", state.global_step)

    def on_log(self, args, state, control, logs, **kwargs):
        run.log(state.global_step, int(state.epoch), **logs)
"""
_TORCH = """\
from jupyter_hpc.training import Run

with Run(model=model, optimizer=optimizer, every="10 min") as run:
    for epoch in run.epochs(EPOCHS):
        for batch in run.batches(loader):
            ...
"""
_LIGHTNING = """\
from jupyter_hpc.training.lightning import RunCheckpoint
from lightning import Trainer

trainer = Trainer(max_epochs=EPOCHS, callbacks=[RunCheckpoint(every="10 min")])
trainer.fit(model, loader, ckpt_path="last")
"""
_TRANSFORMERS = f"""\
from jupyter_hpc.training import FrameworkRun
from transformers import Trainer, TrainerCallback, TrainingArguments


{GO_ON_CALLBACK}

with FrameworkRun(every="10 min") as run:
    arguments = TrainingArguments(
        run.folder, num_train_epochs=EPOCHS, save_strategy="epoch", save_total_limit=2
    )
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[GoOn()])
    trainer.train(resume_from_checkpoint=run.newest())
"""
RECIPES = {"torch": _TORCH, "lightning": _LIGHTNING, "transformers": _TRANSFORMERS}
