"""Where a change is proposed, where only the recipe is shown and why, and where nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.preflight.long_runs import default_until, long_run_findings, never_resumes
from jupyter_hpc.batch.resuming.proposal import Proposal, propose
from tests.batch.notebooks import converted
from tests.batch.resuming.test_same_training import parsed, patched
from tests.batch.resuming.trainings import MODEL, PLAIN, SETUP, TRAININGS
from tests.training.recipes import recipe

LOOP = """\
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()"""


def proposed(*cells: str) -> Proposal:
    found = propose(parsed(list(cells)))
    assert found is not None
    return found


def changed(*cells: str) -> str:
    found = proposed(*cells)
    assert not found.unsure
    return found.edits[0].after


def reason(*cells: str) -> str:
    found = proposed(*cells)
    assert not found.edits and "Run(model=model" in found.recipe
    return found.unsure


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([LOOP, LOOP], "several trainings (cell 3 and 4)"),
        (["for lr in (1, 2):\n    model = nn.Linear(3, 1)\n    optimizer = optim.SGD("
          "model.parameters(), lr)\n" + LOOP.replace("\n", "\n    ").replace("for e", "    for e")],
         "not seen how many turns"),
        (["for fold in range(3):\n    model = nn.Linear(3, 1)\n    optimizer = optim.SGD("
          "model.parameters(), 1)\n    for x, y in loader:\n        loss = model(x).sum()\n"
          "        loss.backward()\n        optimizer.step()"], "`model` is made anew"),
        (["def fit(m, o):\n    for e in range(2):\n        m(data).sum().backward()\n"
          "        o.step()", "fit(model, optimizer)\nfit(model, optimizer)"],
         "fit() trains and is called more than once"),
        ([LOOP.replace("epoch in range(3)", "x in things")], "not seen how many turns"),
        (["step = 0\nwhile step < 9:\n    model(data).sum().backward()\n    optimizer.step()\n"
          "    step += 1"], "not seen how many turns"),
        ([LOOP.replace("optimizer.step()", "agent.step()")], "what `agent.step()` of cell 3"),
        (["best = None\n" + LOOP + "\n    if loss < 1:\n        best = model(x)"],
         "`best` goes from one turn to the next"),
        (["stop = EarlyStopping(patience=3)\n" + LOOP + "\n    if stop(loss): break"],
         "`stop` (EarlyStopping) keeps a state"),
        (["import torch.distributed as dist\ndist.init_process_group()", LOOP],
         "several processes"),
        (["class T:\n    def fit(self):\n        for e in range(2):\n            "
          "self.model(data).backward()", "T().fit()"], "in a class"),
        (["x = torch.ones(3, requires_grad=True)\noptimizer = optim.SGD([x], 1)", LOOP],
         "not seen which model"),
        (["ema = nn.Linear(3, 1)", LOOP + "\n    ema.load_state_dict(model.state_dict())"],
         "`ema.load_state_dict()` changes something"),
        (["Run = 3", LOOP], "something else that is called Run"),
        (["count = 0\n" + LOOP + "\n    if count: count = 1; print(count)"], "on one line"),
    ],
)  # fmt: skip
def test_what_is_not_seen_well_is_left_to_the_person(cells: list[str], why: str) -> None:
    assert why in reason(SETUP, MODEL, *cells)


@pytest.mark.parametrize(
    "cells",
    [
        [SETUP, "print(model)"],
        ["import torch\nx = torch.ones(2, requires_grad=True)\nfor i in range(3):\n"
         "    (x * x).sum().backward()\n    x.data -= x.grad"],
        ["import numpy as np\nfor epoch in range(3):\n    step()"],
        ["from sklearn.linear_model import SGDClassifier", "SGDClassifier().fit(x, y)"],
        ["from torch import optim\nimport torch\ndef train():\n    loss.backward()"],
        ["%%bash\npython train.py"],
        [SETUP, MODEL, "state = torch.load('a.pt')\noptimizer.load_state_dict(state['o'])", LOOP],
        [SETUP, MODEL, "import os\nif os.path.exists('a.pt'):\n    s = torch.load('a.pt')", LOOP],
        [SETUP, MODEL, "start_epoch = resume(model)", LOOP],
        [SETUP, MODEL, "model.load_state_dict(torch.load('m.pt'))", LOOP,
         "torch.save(model.state_dict(), 'm.pt')"],
        [SETUP, MODEL, "from jupyter_hpc.training import Run\nwith Run(model=model) as run:\n"
         "    pass"],
        ["from keras import Sequential", "model.fit(x, y, epochs=3)"],
        ["from transformers import AutoModel, Trainer", "AutoModel.from_pretrained('x')"],
        ["from lightning import Trainer", "Trainer().test(model)"],
    ],
)  # fmt: skip
def test_nothing_is_said_where_nothing_trains_or_all_is_well(cells: list[str]) -> None:
    assert propose(parsed(cells)) is None


@pytest.mark.parametrize(
    "helper",
    [
        "from jupyter_hpc.training import loader_options, prepare\nprepare()",
        "import jupyter_hpc.training as kit\nkit.prepare()",
        "from jupyter_hpc import training\ntraining.prepare()",
        "from jupyter_hpc.training import *\nprepare()",
        "from jupyter_hpc.training import Run, device",  # imported, and never used
    ],
)
def test_helpers_of_the_kit_alone_resume_nothing(helper: str) -> None:
    setup = SETUP.replace("shuffle=True)", "shuffle=True, **loader_options())")
    found = proposed(helper, setup, MODEL, LOOP)
    assert "with Run(model=model" in found.edits[0].after
    code = "\n".join([helper, setup, MODEL, LOOP])
    assert never_resumes(code) and default_until(code) == "exit"
    chain = BatchJob("a.ipynb", "/r", "/w", chain=3)
    (said,) = long_run_findings(chain, code, found)
    assert said.severity == "error"


@pytest.mark.parametrize(
    "run",
    [
        "from jupyter_hpc.training import Run as Training\nTraining(model=model)",
        "import jupyter_hpc.training\njupyter_hpc.training.Run(model=model)",
        "from jupyter_hpc import training as kit\nkit.FrameworkRun()",
        "from jupyter_hpc.training import *\nRun(model=model)",
        "from jupyter_hpc.training.lightning import RunCheckpoint\nRunCheckpoint()",
    ],
)
def test_what_goes_on_with_the_kit_is_seen(run: str) -> None:
    assert propose(parsed([SETUP, MODEL, run, LOOP])) is None
    code = "\n".join([SETUP, MODEL, run, LOOP])
    assert not never_resumes(code) and default_until(code) == "done"


def test_what_is_saved_at_the_end_or_never_loaded_is_said() -> None:
    assert proposed(*PLAIN).message.startswith("Nothing of this training is saved")
    end = proposed(*PLAIN, "torch.save(model.state_dict(), 'checkpoint.pt')")
    assert "What cell 4 saves at the end is never loaded again" in end.message
    each = proposed(SETUP, MODEL, LOOP + "\n    torch.save(model.state_dict(), f'{epoch}.pt')")
    assert "What cell 3 saves is never loaded again" in each.message


def test_frameworks_get_their_recipe() -> None:
    lightning = proposed("import lightning as L", "L.Trainer(max_epochs=3).fit(model)")
    assert (lightning.framework, lightning.edits) == ("lightning", ())
    assert lightning.recipe == recipe("Lightning")  # which the tests of the kit run
    trainer = proposed("from transformers import Trainer", "t = Trainer(model)\nt.train()")
    assert trainer.framework == "transformers"
    assert trainer.recipe == recipe("Hugging Face Trainer")
    compile(proposed(SETUP, MODEL, LOOP, LOOP).recipe, "recipe", "exec")
    for found in (lightning, trainer):
        lines = found.recipe.splitlines()
        assert propose(parsed([*lines[:1], found.recipe])) is None, "with them, all is well"


def test_progress_bars_and_counts_stay_right() -> None:
    loop = LOOP.replace("range(3)", "tqdm(range(5, n))").replace(
        "x, y in loader", "i, (x, y) in enumerate(tqdm(loader, desc='train'), start=1)"
    )
    text = changed(SETUP, MODEL, "from tqdm import tqdm", loop + "\n        print(i)")
    assert "for epoch in tqdm(run.epochs(n - 5), total=n - 5):\n        epoch += 5\n" in text
    assert (
        "in enumerate(tqdm(run.batches(loader), desc='train', total=len(loader)), "
        "start=1 + run.step % len(loader)):"
    ) in text


def test_magics_comments_texts_and_layout_of_the_cell_stay() -> None:
    loop = (
        "%%time\nif True:\n"
        + LOOP.replace("\n", "\n    ").replace("for e", "    for e", 1)
        + "\n        !nvidia-smi\n        say('''a\n  b''')\n        # the end\nprint(1)"
    )
    text = changed(SETUP, MODEL, loop)
    assert text.startswith("%%time\nif True:\n    from jupyter_hpc.training import Run\n")
    assert (
        "\n            !nvidia-smi\n            say('''a\n  b''')\n            # the end\n" in text
    )
    assert text.endswith("\nprint(1)")


def test_an_epoch_stays_whole_where_its_batches_are_not_seen_well() -> None:
    accumulating = LOOP.replace(
        "        optimizer.step()", "        if epoch % 2:\n            optimizer.step()"
    )
    for loop, why in (
        (accumulating, "not every batch takes a step"),
        (LOOP + "\n        if loss < 1: break", "can end early"),
        (LOOP.replace("in loader", "in batches(loader)"), "not seen to be a DataLoader"),
        (LOOP.replace("    for x", "    total = 0\n    for x") + "\n        total += loss",
         "`total` adds up over the batches"),
    ):  # fmt: skip
        found = proposed(SETUP, MODEL, loop)
        assert found.edits and "run.batches(" not in found.edits[0].after
        assert why in found.notes[0]
    own = SETUP.replace("shuffle=True", "generator=torch.Generator()")
    assert "sampler or generator of its own" in reason(own, MODEL, accumulating)
    assert "run.batches(loader)" in changed(own, MODEL, LOOP)


@pytest.mark.parametrize("name", TRAININGS)
def test_the_same_parameters_can_be_set_as_before(name: str, tmp_path: Path) -> None:
    def parameters(cells: list[str]) -> list[tuple[str, str]]:
        found = converted(tmp_path, [*cells]).parameters
        return [(each.name, each.default) for each in found if each.default != "'10 min'"]

    cells = TRAININGS[name][0]
    before = parameters(cells)
    after = parameters(patched(cells))
    assert after == before
    assert name != "plain" or ("epochs", "3") in after


def test_names_that_are_taken_are_not_used() -> None:
    text = changed(SETUP, MODEL, "run = 5", LOOP)
    assert "as training:" in text and "training.epochs(3)" in text


def test_a_diff_shows_the_cell() -> None:
    found = proposed(*PLAIN)
    lines = found.diff("a.ipynb").splitlines()
    assert lines[:2] == ["--- a.ipynb, cell 3", "+++ a.ipynb, cell 3"]
    assert "+from jupyter_hpc.training import Run" in lines
    assert found.to_json()["edits"][0]["diff"].startswith("@@ ")


def test_a_chain_that_would_begin_at_zero_is_refused_with_the_way_out() -> None:
    save = "torch.save(model.state_dict(), 'checkpoint.pt')"  # a word that once was enough
    found = proposed(SETUP, MODEL, LOOP, save)
    code = "\n".join([SETUP, MODEL, LOOP, save])
    assert list(long_run_findings(BatchJob("a b.ipynb", "/r", "/w"), code, found)) == []
    for job in (
        BatchJob("a b.ipynb", "/r", "/w", chain=3),
        BatchJob("a b.ipynb", "/r", "/w", requeue=True),
    ):
        (said,) = long_run_findings(job, code, found)
        assert (said.severity, said.message) == ("error", found.message)
        assert "jupyter-hpc submit 'a b.ipynb' --apply" in said.hint
    (said,) = long_run_findings(job, code, proposed(SETUP, MODEL, LOOP, LOOP))
    assert "several trainings" in said.hint and "`with Run(" in said.hint
    trainer = "from transformers import Trainer\nTrainer(model).train()"
    (said,) = long_run_findings(job, trainer, proposed(trainer))
    assert "--propose shows them" in said.hint and "`with Run(" not in said.hint
