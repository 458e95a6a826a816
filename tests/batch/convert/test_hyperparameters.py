"""Numbers of a training that are no variables: found, named, and set exactly where they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.verify.verify import small_budget
from tests.batch.notebooks import AnyCell, Code, converted, run_notebook, run_script

#: A training without torch: what it is given is what it prints.
TRAINING = """
class SGD:
    def __init__(self, params, lr=0.5, momentum=0): print('SGD', lr, momentum)
    def step(self): pass
class Loss:
    def backward(self): pass
def DataLoader(data, batch_size=1): print('loader', batch_size); return [1]
"""


def settings(conversion: Conversion) -> dict[str, tuple[str, str]]:
    return {p.name: (p.kind, p.default) for p in conversion.parameters}


@pytest.mark.parametrize(
    ("cells", "name", "kind", "default"),
    [
        (["optimizer = optim.SGD(model.parameters(), lr=0.1)"], "lr", "keyword", "0.1"),
        (["optimizer = optim.Adam(model.parameters(), 1e-3)"], "lr", "argument", "0.001"),
        (["optimizer = SGD(p, lr=1)"], "lr", "keyword", "1.0"),
        (["loader = DataLoader(data, batch_size=64)"], "batch_size", "keyword", "64"),
        (["loader = DataLoader(data, 64)"], "batch_size", "argument", "64"),
        (["model.fit(x, y, epochs=5)"], "epochs", "keyword", "5"),
        (["learn.fit_one_cycle(5)"], "epochs", "argument", "5"),
        (["with a:\n    if b:\n        fit(epochs=5)"], "epochs", "keyword", "5"),
        (["trainer = Trainer(max_epochs=5)"], "max_epochs", "keyword", "5"),
        (["config = {'lr': 0.1, 'columns': 3}"], "lr", "entry", "0.1"),
        (["config = {'optimizer': {'lr': 0.1}}"], "lr", "entry", "0.1"),
        (["class Config:\n    lr: float = 0.1\n    classes = 10"], "lr", "entry", "0.1"),
        (["args.batch_size = 8"], "batch_size", "entry", "8"),
        (["params['batch_size'] = 8"], "batch_size", "entry", "8"),
        (["def train(n_epochs=3): pass", "train()"], "n_epochs", "default", "3"),
        (["class M:\n    def __init__(self, lr=1e-3): pass", "M()"], "lr", "default", "0.001"),
        (["def f(model, num_epochs, lr): pass", "f(m, 5, rate)"], "num_epochs", "argument", "5"),
        (["class M:\n    def fit(self, epochs): pass", "M().fit(7)"], "epochs", "argument", "7"),
        (["for epoch in range(9): pass"], "epochs", "loop", "9"),
        (["for epoch in tqdm(range(1, 10)): pass"], "epochs", "loop", "9"),
        (["for epoch in range(start, 10): pass"], "epochs", "loop", "10"),
        (["for i in range(9):\n  for x in d:\n    loss.backward()"], "epochs", "loop", "9"),
        (["for i in range(9):\n    loss.backward()"], "iterations", "loop", "9"),
        (["def f():\n    loss.backward()", "for t in range(9): f()"], "iterations", "loop", "9"),
        (
            ["for i in range(5):\n  for epoch in range(9):\n    loss.backward()"],
            *("epochs", "loop", "9"),
        ),
        (["p.add_argument('--lr', '-l', type=float, default=0.1)"], "lr", "option", "0.1"),
        (["p.add_argument('--batch-size', default=8)"], "batch_size", "option", "8"),
        (["torch.manual_seed(0)"], "seed", "argument", "0"),
        (["x = train_test_split(d, random_state=4)"], "random_state", "keyword", "4"),
        (["m = Net(hidden_size=4)"], "hidden_size", "keyword", "4"),
        (["def main():\n    lr = 0.1\n    go(lr)", "main()"], "lr", "local", "0.1"),
        (["batchsz = 8\nbatchsz = 9\nprint(batchsz)"], "batchsz", "assigned", "9"),
        (["val_epochs = f(val_epochs=2, epochs=3)"], "epochs", "keyword", "3"),
        (["d = d.map(f, writer_batch_size=9, batch_size=8)"], "batch_size", "keyword", "8"),
        (["if a:\n    lr = 0.1\nelse:\n    lr = f()\nprint(lr)"], "lr", "assigned", "0.1"),
    ],
)  # fmt: skip
def test_one_of_a_kind_has_its_plain_name(
    cells: list[AnyCell], name: str, kind: str, default: str, tmp_path: Path
) -> None:
    assert settings(converted(tmp_path, cells)) == {name: (kind, default)}


@pytest.mark.parametrize(
    "cells",
    [
        ["def train(epochs=3): pass", "train(n)"],  # the default never counts
        ["def train(epochs=3): pass", "train(epochs=n)"],
        ["def train(epochs=3): pass"],  # nobody calls it
        ["def f(): SGD(p, lr=0.1)"],
        ["p.add_argument('--lr', default=0.1)\np.parse_args(['--lr', '0.2'])"],
        ["epoch = 1\nwhile epoch < 5: epoch += 1"],
        ["epoch = 0\nlr_decay_every = 3\nsave_epochs = 2", "print(f'{f(lr=0.1)}')"],
        ["lr = 0.1", "lr = 0.2", "lr = f()"],  # none of them is read
        ["for i in range(9): print(i)", "for x in range(3):\n    plot(x)"],
        ["for fold in range(5):\n  for x in d:\n    loss.backward()"],
        ["def train(): loss.backward()", "for seed in range(3):\n    train()"],
        ["@torch.jit.script\ndef f(): g(lr=0.1)", "f()"],
        ["class N:\n    def forward(self, x): return F.fit(x, lr=0.1)"],
        ["x = torch.linspace(0, 1, steps=3)\nplt.bar(x, width=0.5)\nplt.plot(x, alpha=0.1)"],
        ["r = Resize(224)\nn = Net(in_channels=3, num_classes=10)\nread(column=3, url='x')"],
        ["def f(lr=0.1): pass", "def f(lr=0.2): pass", "f()"],  # which of the two?
        ["SGD(p, lr=rate())\nlr_list = [0.1, 0.2]"],
        ["torch.save({'epoch': 80 + 6, 'lr': 0.1, 'model': m.state_dict()}, 'm.pt')"],
    ],
)
def test_what_is_no_setting_is_not_offered(cells: list[AnyCell], tmp_path: Path) -> None:
    assert not settings(converted(tmp_path, cells))


def test_two_of_a_kind_are_named_after_what_has_them(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "bs = 4\nprint(bs)",
        "optimizer = SGD(p, lr=0.1)\nscheduler = Cyclic(optimizer, max_lr=1.0)\n"
        "test_loader = DataLoader(d, batch_size=1000)",
        "optimizer = SGD(p, lr=0.2)",
        "train(lr=0.3); train(lr=0.4)",
        "_ = fit(lr=0.5)",
    ]
    assert settings(converted(tmp_path, cells)) == {
        "optimizer.lr.cell2": ("keyword", "0.1"),
        "scheduler.max_lr": ("keyword", "1.0"),
        "optimizer.lr.cell3": ("keyword", "0.2"),
        "train.lr.cell4.line1": ("keyword", "0.3"),
        "train.lr.cell4.line1.2": ("keyword", "0.4"),
        "fit.lr": ("keyword", "0.5"),
        "bs": ("constant", "4"),
        "test_loader.batch_size": ("keyword", "1000"),
    }


def test_a_variable_keeps_its_name_before_a_literal(tmp_path: Path) -> None:
    cells: list[AnyCell] = ["LR = 0.1\nSGD(p, lr=LR)", "other = SGD(p, lr=0.2)"]
    assert list(settings(converted(tmp_path, cells))) == ["LR", "other.lr"]


def test_a_variable_that_is_assigned_again_is_set_where_it_is_read(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "lr = 0.1\ndef show(): print('lr', lr)",
        "show()",
        "lr = 0.9",
        "lr = 0.2\nprint(lr)",
    ]
    conversion = converted(tmp_path, cells)
    assert list(settings(conversion)) == ["lr.cell1", "lr.cell4"]
    ran = run_script(conversion, tmp_path / "s", ["--set", "lr.cell4=3", "--set", "LR.CELL1=7"])
    assert (ran.outputs[2].text, ran.outputs[4].text) == ("lr 7.0", "3.0"), ran.stderr


def test_what_people_change_comes_first(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "url = 'https://example.org/a.csv'\ncolumn = 'price'\nshape = (3, 4)\nnum_classes = 10\n"
        "model = 'resnet'\nthreshold = 0.3\nhidden_dim = 8\nseed = 1\nbatch_size = 4\n"
        "momentum = 0.9\nepochs = 2\nlearning_rate = 0.1",
        "print(url, column, shape, num_classes, model, threshold, hidden_dim, seed, batch_size)\n"
        "print(momentum, epochs, learning_rate)",
    ]
    assert list(settings(converted(tmp_path, cells))) == [
        *("learning_rate", "epochs", "batch_size", "seed", "hidden_dim", "momentum"),
        *("threshold", "model", "url", "column", "shape", "num_classes"),
    ]


LITERALS: list[AnyCell] = [
    TRAINING,
    "loader = DataLoader('x', batch_size=4); optimizer = SGD([], lr=1)",
    "import os\n%time opt2 = SGD([], 0.25)\nother = {'seed': 3}",
    "def train(turns):\n    for epoch in range(1, 4):\n        Loss().backward()\n"
    "        print('epoch', epoch)\n    print(turns)\ntrain(turns=range(2))\nprint(other)",
]


def test_each_is_set_where_it_stands_and_nowhere_else(tmp_path: Path) -> None:
    conversion = converted(tmp_path, LITERALS)
    names = list(settings(conversion))
    assert names == ["optimizer.lr", "opt2.lr", "epochs", "batch_size", "seed", "momentum"]
    plain = run_script(conversion, tmp_path / "plain")
    assert plain.outputs[2].text == "loader 4\nSGD 1 0"
    text = "\n".join(plain.outputs[n].text for n in (2, 3, 4))
    for name, value, before, after in (
        ("optimizer.lr", "0.5", "SGD 1 0", "SGD 0.5 0"),
        ("opt2.lr", "2", "SGD 0.25 0", "SGD 2.0 0"),
        ("epochs", "2", "\nepoch 3", ""),
        ("BATCH_SIZE", "9", "loader 4", "loader 9"),
        ("seed", "8", "'seed': 3", "'seed': 8"),
    ):
        ran = run_script(conversion, tmp_path / "s", ["--set", f"{name}={value}"])
        shown = "\n".join(ran.outputs[n].text for n in (2, 3, 4))
        assert text.count(before) == 1
        assert shown == text.replace(before, after), ran.stderr
    help_text = run_script(conversion, tmp_path / "h", ["--help"]).stdout
    assert "optimizer.lr  float  1.0      cell 2, SGD()" in help_text
    assert "epochs        int    3        cell 4, for epoch in range(…)" in help_text
    assert small_budget(conversion) == {"epochs": 1}


def test_a_notebook_that_runs_as_it_is_is_set_in_the_same_places(tmp_path: Path) -> None:
    conversion = converted(tmp_path, LITERALS).as_notebook()
    # What stands in the line of a magic has no place in the notebook that is known.
    assert [p.name for p in conversion.parameters] == [
        *("optimizer.lr", "epochs", "batch_size", "seed", "momentum")
    ]
    report = tmp_path / "conversion.json"
    report.write_text(json.dumps(conversion.to_json()), encoding="utf-8")
    values = ["--set=optimizer.lr=0.5", "--set=Batch_size=9", "--set=epochs=1", "--set=seed=8"]
    arguments = ["--report", str(report), *values]
    ran = run_notebook(tmp_path / "a.ipynb", tmp_path / "nb", arguments)
    assert ran.outputs[2].text == "loader 9\nSGD 0.5 0"
    assert ran.outputs[4].text == "epoch 1\nrange(0, 2)\n{'seed': 8}"


def test_a_tagged_cell_has_the_last_word(tmp_path: Path) -> None:
    cells: list[AnyCell] = [Code("a = 1", tags=("parameters",)), "SGD(a, lr=0.1)"]
    assert list(settings(converted(tmp_path, cells))) == ["a"]
