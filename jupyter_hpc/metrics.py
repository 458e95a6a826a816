"""What the names of a training's numbers mean: which one decides, and which way is better."""

from __future__ import annotations

import re
from collections.abc import Collection

#: Less is better for these; more is better for all others.
_LESS = re.compile(r"loss|err|perplexity|ppl|mse|mae|rmse|nll|wer|cer|fid|bpb|distance", re.I)
#: Which number decides, where nobody says.
_DECIDING = ("val_loss", "valid_loss", "validation_loss", "val_accuracy", "val_acc", "loss")


def less_is_better(name: str) -> bool:
    return bool(_LESS.search(name))


def deciding(names: Collection[str]) -> str | None:
    """The number by which runs are compared: one of the usual names, else none."""
    spelled = {name.lower().replace(" ", "_"): name for name in names}
    return next((spelled[name] for name in _DECIDING if name in spelled), None)
