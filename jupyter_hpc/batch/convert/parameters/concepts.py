"""What a name says about a value: a learning rate, a number of epochs, the shape of data."""

from __future__ import annotations

import itertools
import re
from enum import IntEnum


class Concept(IntEnum):
    """What people want to change in a training, in the order in which they want it."""

    RATE = 0
    EPOCHS = 1
    BATCH = 2
    SEED = 3
    WIDTH = 4
    #: Momentum, decay, dropout: numbers of a training that have a name of their own.
    FINE = 5
    #: Any other number or switch.
    NUMBER = 6
    WORD = 7
    #: Shapes of data, addresses, paths, columns, patterns: rarely what somebody sweeps.
    DATA = 8


#: Concepts for which a value is found wherever it stands, not only in a variable.
SOUGHT = frozenset(
    {Concept.RATE, Concept.EPOCHS, Concept.BATCH, Concept.SEED, Concept.WIDTH, Concept.FINE}
)
#: Of these, the ones of which a notebook is expected to have one.
SINGLE = frozenset({Concept.RATE, Concept.EPOCHS, Concept.BATCH, Concept.SEED})

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

#: Words that make the name one of something else: `lr_decay`, `epochs_per_save`.
_NOT_RATE = frozenset(
    """decay step steps scheduler sched schedule gamma patience factor epoch epochs mult
    multiplier warmup policy find finder drop milestones reduce every interval start rampup
    size ratio scale mode type name finding threshold tol""".split()  # noqa: SIM905 - a word list
)
_NOT_LENGTH = frozenset(
    """print log save eval every interval freq frequency warmup start best last patience decay
    per size current loss acc accuracy test validate validation valid val checkpoint begin first
    ckpt show display plot update sample len length time seconds step idx index id early stop
    stopping anneal annealing each verbose from resume init initial swa end""".split()  # noqa: SIM905 - a word list
)
_EPOCHS = frozenset({"epoch", "epochs", "nepoch", "nepochs"})
_TURNS = frozenset({"iters", "iterations", "niters", "niter", "iteration", "iter"})
_COUNTING = frozenset({"n", "num", "max", "total", "number", "nb", "train", "training", "no", "of"})
_SHAPE = frozenset(
    """input output in out classes class channels vocab vocabulary image img features feature
    sequence seq shape target label labels word words sentence token tokens resize crop
    samples""".split()  # noqa: SIM905 - a word list
)
_WIDE = frozenset({"hidden", "latent", "embedding", "embed", "emb", "embeddings", "units"})
_WIDTHS = frozenset(
    """d_model dim_feedforward num_layers n_layers n_layer nlayers num_heads n_heads n_head nhead
    nheads nhid nhidden z_dim zdim nz ngf ndf ff_dim d_ff d_k d_v num_hiddens n_embd n_hid
    num_hidden_layers num_attention_heads num_filters n_filters width_mult growth_rate lora_rank
    lora_alpha""".split()  # noqa: SIM905 - a word list
)
_FINE = frozenset(
    """momentum weight_decay wd dropout drop_rate dropout_rate dropout_p p_dropout drop_prob
    dropout_prob keep_prob l2_lambda label_smoothing grad_clip max_grad_norm clip
    gradient_accumulation_steps accumulation_steps teacher_forcing_ratio temperature
    warmup_steps warmup_ratio step_size lr_decay gamma""".split()  # noqa: SIM905 - a word list
)
_ADDRESS = re.compile(r"https?://|^[~./]|/|\\|[*?^$|{}\[\]]|\.\w{1,5}$|,")
_DATA_WORDS = frozenset(
    """url path file dir directory folder root column columns col cols pattern regex filename
    format device""".split()  # noqa: SIM905 - a word list
)


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: `learningRate`, `LEARNING_RATE`."""
    return [word.lower() for word in _WORDS.findall(name)]


def concept(name: str, value: object) -> Concept:
    """What a value of that name is."""
    words = words_of(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _other(words, value)
    return _number(words, name.lower().strip("_"), value)


def _number(words: list[str], lower: str, value: float) -> Concept:
    known = set(words)
    pairs = set(itertools.pairwise(words))
    if not known & _NOT_RATE and value > 0:
        short = known & {"lr", "lrs", "lrate", "learningrate"}
        if short or ("learning", "rate") in pairs or ("l", "rate") in pairs:
            return Concept.RATE
    if isinstance(value, int):
        if value > 0 and _is_length(words, known):
            return Concept.EPOCHS
        if value > 0 and _is_batch(words, known, pairs):
            return Concept.BATCH
        if "seed" in known or lower in ("random_state", "randomseed"):
            return Concept.SEED
        wide = known & _WIDE and not known & {"input", "output"}
        if value > 0 and (lower in _WIDTHS or wide):
            return Concept.WIDTH
    if lower in _FINE or lower.removeprefix("nn_") in _FINE:
        return Concept.FINE
    return Concept.DATA if known & _SHAPE else Concept.NUMBER


def _is_length(words: list[str], known: set[str]) -> bool:
    if known & _NOT_LENGTH:
        return False
    return bool(known & _EPOCHS) or (bool(known & _TURNS) and known - _TURNS <= _COUNTING)


def _is_batch(words: list[str], known: set[str], pairs: set[tuple[str, str]]) -> bool:
    if "writer" in known:  # of `datasets`: how many rows are written to its file at once
        return False
    if known & {"batchsize", "batchsz", "bsz", "bsize", "minibatchsize"}:
        return True
    if ("batch", "size") in pairs or ("batch", "sz") in pairs or ("minibatch", "size") in pairs:
        return True
    if {"batch", "size"} <= known and known <= {"batch", "size", "mini", "train", "test", "val"}:
        return True
    return words in (["bs"], ["bs", "train"], ["train", "bs"], ["mb", "size"], ["batch"])


def _other(words: list[str], value: object) -> Concept:
    if isinstance(value, bool):
        return Concept.NUMBER
    if isinstance(value, str) and not _ADDRESS.search(value) and not set(words) & _DATA_WORDS:
        return Concept.WORD
    return Concept.DATA
