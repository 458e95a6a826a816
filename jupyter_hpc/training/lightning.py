"""Lightning goes on where it ended: a callback beside its own loop, checkpoints and requeue.

Lightning loads by itself what `trainer.fit(…, ckpt_path="last")` finds, here the newest
checkpoint that is whole. Its handler of USR1 stays and runs at the signal (2.6: it saves inside
of it and puts the job back into the queue); what is saved here is saved between two steps.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import say
from jupyter_hpc.training.framework import FrameworkRun
from jupyter_hpc.training.randomness import random_states, set_random_states

try:
    # Two packages with one content, whose classes do not know each other.
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        from pytorch_lightning.callbacks import OnExceptionCheckpoint
    else:
        from lightning.pytorch.callbacks import OnExceptionCheckpoint
except ImportError as failure:
    raise UsageError(
        f"jupyter_hpc.training.lightning needs Lightning, which {sys.executable} does not have.",
        "Install it there (pip install lightning), or use the Python that has it.",
    ) from failure


class RunCheckpoint(OnExceptionCheckpoint):  # type: ignore[misc, unused-ignore]
    """Saves every `every`, at the end of an epoch, and soon after USR1 and TERM; then ends with
    85, and at the end of the training leaves DONE. `run.id` is the same in all parts.
    """

    def __init__(
        self,
        *,
        every: str | float = "10 min",
        folder: str | os.PathLike[str] | None = None,
        keep: int = 2,
    ) -> None:
        self.run = FrameworkRun(every=every, folder=folder, keep=keep)
        super().__init__(self.run.folder)
        self.run.open()  # before a logger begins a run of its own
        self._random: list[Any] = []
        self._newest: str | None = None
        self._is_whole_epoch, self._epoch_is_over = True, False

    @property
    def ckpt_path(self) -> str | None:
        """What fit(…, ckpt_path="last") goes on from."""
        if self._newest is None:
            self._newest = self.run.newest()
        if self._newest is None:
            # Lightning may have saved at the signal, and been ended before our next step. Else
            # ours is better: it was not taken in the middle of one.
            paths = self.run.folder.glob("hpc_ckpt_*.ckpt")
            self._newest = max(map(str, paths), key=lambda path: (len(path), path), default=None)
        return self._newest

    # ---- beginning and end ---------------------------------------------------
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self.run.open()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        given, newest = trainer.ckpt_path, self.ckpt_path
        # Where no path is given, Lightning (2.6) takes what it saved itself, however old.
        if newest not in (None, given) and "hpc_ckpt_" in str(given):
            say(f'goes on from {given}, not from {newest}: that takes fit(…, ckpt_path="last")')
        self._set_random(trainer)  # the order of the first epoch is drawn before on_train_start

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.run.listen()  # after Lightning, which would leave USR1 to whoever was there before
        if not self._is_whole_epoch:
            self._set_random(trainer)
            if not self._is_stateful(trainer) and trainer.is_global_zero:
                say(
                    f"a {type(trainer.train_dataloader).__name__} knows no position: the rest of "
                    "this epoch has other samples. torchdata's StatefulDataLoader goes on at the "
                    "same batch."
                )
        self._random = []

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._save(trainer)
        self.run.stop_listening()  # before Lightning gives back what was there before it

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self.run.set_done(True)  # also where all epochs were done before

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._newest = None  # another fit would go on from a newer one
        self.run.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.run.close()  # nothing is saved in the middle of a step

    # ---- the loop ------------------------------------------------------------
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # After the last batch, validation and end of the epoch come first: what is saved before
        # them goes on without the numbers that others wait for, such as EarlyStopping (2.6).
        if not trainer.is_last_batch and (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            wanted = self._after_step(trainer)
            self._boundary(trainer, wanted or self._epoch_is_over)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.run.log(trainer.global_step, trainer.current_epoch, **values)
        self._after_step(trainer, ended=1)
        # Lightning (2.6) gives a loader its position back within an epoch only: a step later.
        self._epoch_is_over = self._is_stateful(trainer) and (
            trainer.num_training_batches > trainer.accumulate_grad_batches
        )
        if not self._epoch_is_over:
            self._boundary(trainer, True, ended=1)

    def _after_step(self, trainer: Any, ended: int = 0) -> bool:
        epochs, steps = trainer.max_epochs, trainer.max_steps
        all_epochs = (epochs or -1) != -1 and trainer.current_epoch + ended >= epochs
        done = all_epochs or trainer.should_stop or -1 != steps <= trainer.global_step
        return self.run.after_step(trainer.global_step, more=not done)

    def _boundary(self, trainer: Any, is_wanted: bool, ended: int = 0) -> None:
        if is_wanted:
            self._save(trainer, ended)
        if self.run.is_over:
            self.run.leave()

    # ---- saving --------------------------------------------------------------
    def _save(self, trainer: Any, ended: int = 0) -> None:
        self._random = self.run.processes.gather_states(random_states())
        self._epoch_is_over = False
        try:
            epoch = trainer.current_epoch + ended
            self.run.save(trainer.save_checkpoint, trainer.global_step, epoch)
        finally:
            self._random = []

    def state_dict(self) -> dict[str, Any]:
        return {"random": self._random, "id": self.run.id}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._random = state_dict["random"]

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        progress = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]
        self._is_whole_epoch = progress["started"] == progress["processed"]
        process = trainer.strategy.process_dataloader

        def process_in_epoch(loader: Any) -> Any:
            # Lightning (2.6) tells a DistributedSampler which epoch it is when the loader has
            # begun already, and it draws the order of the first one again.
            loader = process(loader)
            _set_epoch(loader, progress["processed"])
            return loader

        trainer.strategy.process_dataloader = process_in_epoch

    def _set_random(self, trainer: Any) -> None:
        if len(self._random) == trainer.world_size:
            set_random_states(self._random[trainer.global_rank])

    def _is_stateful(self, trainer: Any) -> bool:
        return hasattr(trainer.train_dataloader, "load_state_dict")


def _set_epoch(loader: Any, epoch: int) -> None:
    for owner in (loader, getattr(loader, "batch_sampler", None)):
        sampler: Any = getattr(owner, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
