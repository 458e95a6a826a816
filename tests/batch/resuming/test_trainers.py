"""The loop of a framework: what is proposed to plain calls, and that it goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.preflight.long_runs import long_run_findings
from jupyter_hpc.batch.resuming.applying import apply_edits
from jupyter_hpc.batch.resuming.proposal import Proposal, propose
from tests.batch.notebooks import notebook
from tests.batch.resuming.test_same_training import parsed, patched, run_cells
from tests.training.conftest import frameworks as frameworks
from tests.training.conftest import lightning as lightning
from tests.training.conftest import torch as torch
from tests.training.loops import digest, end, ended

LIGHTNING = "import lightning as L"
TRANSFORMERS = "from transformers import Trainer, TrainingArguments"
ARGUMENTS = "args = TrainingArguments('out', num_train_epochs=3)"


def proposed(*cells: str) -> Proposal:
    found = propose(parsed(list(cells)))
    assert found is not None
    return found


def after(*cells: str) -> list[str]:
    fresh = patched(list(cells))
    assert propose(parsed(fresh)) is None, "applied once, nothing more is proposed"
    return fresh


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        ("Trainer()", 'Trainer(callbacks=[RunCheckpoint(every="10 min")])'),
        ("Trainer(max_epochs=3)  # so many",
         'Trainer(max_epochs=3, callbacks=[RunCheckpoint(every="10 min")])  # so many'),
        ("Trainer(\n    callbacks=[a, b],\n)",
         'Trainer(\n    callbacks=[a, b, RunCheckpoint(every="10 min")],\n)'),
        ("Trainer(callbacks=[])", 'Trainer(callbacks=[RunCheckpoint(every="10 min")])'),
        ("Trainer(callbacks=None)", 'Trainer(callbacks=[RunCheckpoint(every="10 min")])'),
        ("Trainer(callbacks=own)", 'Trainer(callbacks=[*own, RunCheckpoint(every="10 min")])'),
    ],
)  # fmt: skip
def test_lightning_gets_a_callback_and_a_place_to_begin(before: str, changed: str) -> None:
    cells = [
        "from lightning.pytorch import Trainer\nown = [x]",
        f"%time\ntrainer = {before}",
        "%%time\ntrainer.fit(model, loader)\ntrainer.test(model, loader)",
    ]
    assert after(*cells)[1:] == [
        f"%time\nfrom jupyter_hpc.training.lightning import RunCheckpoint\n\ntrainer = {changed}",
        '%%time\ntrainer.fit(model, loader, ckpt_path="last")\ntrainer.test(model, loader)',
    ]


def test_the_trainer_gets_a_callback_a_folder_and_a_place_to_begin() -> None:
    fresh = after(
        TRANSFORMERS, ARGUMENTS, "trainer = Trainer(model, args, train_dataset=data)",
        "result = trainer.train()  # long\nprint(result)\n",
    )  # fmt: skip
    assert fresh[1].startswith("from jupyter_hpc.training import FrameworkRun\n")
    assert fresh[1].endswith("\n\n\nargs = TrainingArguments(run.folder, num_train_epochs=3)")
    assert fresh[2].endswith("train_dataset=data, callbacks=[GoOn()])")
    assert fresh[3] == (
        "with run:\n    result = trainer.train(resume_from_checkpoint=run.newest())  # long\n"
        "print(result)\n"
    )
    unnamed = after(TRANSFORMERS, "t = Trainer(m, TrainingArguments())", "t.train()")
    assert "t = Trainer(m, TrainingArguments(output_dir=run.folder), callbacks=" in unnamed[1]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([LIGHTNING, "L.Trainer().fit(model)"], "has not one name"),
        ([LIGHTNING, "t = L.Trainer()\nt.fit(model)\nt.fit(model)"], "is called once"),
        ([LIGHTNING, "t = L.Trainer()\nt.fit(model)\nscaler.fit(x)"], "is called once"),
        ([LIGHTNING, "t = L.Trainer()\nt = L.Trainer()\nt.fit(model)"], "made 2 times"),
        ([LIGHTNING, "def main():\n    t = L.Trainer()\n    t.fit(m)", "main()"], "plain statem"),
        ([LIGHTNING, "t = L.Trainer(); t.fit(model)"], "on lines of their own"),
        ([LIGHTNING, "t = L.Trainer(**options)\nt.fit(model)"], "arguments of Trainer"),
        ([LIGHTNING, "t = L.Trainer()\nt.fit(model, *more)"], "arguments of fit"),
        ([LIGHTNING, "t = L.Trainer(callbacks=one)\nt.fit(model)"], "are a list"),
        ([LIGHTNING, "t = L.Trainer(callbacks=[(one)])\nt.fit(model)"], "not followed"),
        ([LIGHTNING, "t = L.Trainer(enable_checkpointing=False)\nt.fit(model)"], "save nothing"),
        ([LIGHTNING, "t = L.Trainer()\nt.fit(model)\nt.test(ckpt_path='best')"], "is read later"),
        ([LIGHTNING, "t = L.Trainer()\nt.fit(model)\nt.test()"], "is read later"),
        ([LIGHTNING, "RunCheckpoint = 1\nt = L.Trainer()\nt.fit(model)"], "called RunCheckpoint"),
        ([TRANSFORMERS, ARGUMENTS, "t = Trainer(m, args)\nt.train()", "load('./out/last')"],
         "`out` is used"),
        ([TRANSFORMERS, "a = TrainingArguments(where)\nt = Trainer(m, a)\nt.train()"],
         "what else uses the folder"),
        ([TRANSFORMERS, "t = Trainer(m, a)\na = TrainingArguments()\nt.train()"], "stand behind"),
        ([TRANSFORMERS, "run = 1", ARGUMENTS, "t = Trainer(m, args)\nt.train()"], "called run"),
        ([TRANSFORMERS, ARGUMENTS, "t = Trainer(m, args)\nprint(t.train())"], "more than that"),
        ([TRANSFORMERS, ARGUMENTS, "t = Trainer(m, args)\nif x:\n    t.train()"], "plain statem"),
        (["from trl import SFTTrainer", "t = SFTTrainer(m)\nt.train()"], "made 0 times"),
    ],
)  # fmt: skip
def test_what_is_not_plain_gets_the_recipe(cells: list[str], why: str) -> None:
    found = proposed(*cells)
    assert not found.edits and found.recipe
    assert why in found.unsure


def test_a_checkpoint_of_ones_own_stays_the_best() -> None:
    fresh = after(
        LIGHTNING, "best = ModelCheckpoint()\ncallbacks = [best]",
        "t = L.Trainer(callbacks=callbacks)\nt.fit(model)\nt.test(ckpt_path='best')",
    )  # fmt: skip
    # The first one is the one that Lightning asks for its best.
    assert 'callbacks=[*callbacks, RunCheckpoint(every="10 min")]' in fresh[2]


def test_a_chain_of_lightning_is_told_and_refused_without_its_requeue() -> None:
    chain = BatchJob("a b.ipynb", "/r", "/w", chain=3)
    cells = [LIGHTNING, "t = L.Trainer()\nt.fit(model)\nt.validate(model, ckpt_path='best')"]
    (said,) = long_run_findings(chain, "\n".join(cells), proposed(*cells))
    assert said.severity == "warning" and "a failed node or a cancel" in said.message
    assert "--propose shows them" in said.hint
    plain = [LIGHTNING, "t = L.Trainer()\nt.fit(model)"]
    (said,) = long_run_findings(chain, "\n".join(plain), proposed(*plain))
    assert said.severity == "warning"
    assert "jupyter-hpc submit 'a b.ipynb' --apply" in said.hint
    off = [LIGHTNING, plain[1].replace(
        "Trainer()", "Trainer(plugins=[SLURMEnvironment(auto_requeue=False)])")]  # fmt: skip
    (said,) = long_run_findings(chain, "\n".join(off), proposed(*off))
    assert said.severity == "error" and "requeue is off" in said.message
    assert propose(parsed(after(*off))) is None


# ---- with the packages -------------------------------------------------------
TRAINED = """\
import torch
seen = []
def ends(step):
    seen.append(step)
    hook(len(seen))
"""
WITH_LIGHTNING = [
    TRAINED,
    """\
import lightning as L
from torchdata.stateful_dataloader import StatefulDataLoader

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout(0.3))

    def training_step(self, batch, index):
        ends(batch[0].tolist())
        return self.layers(batch[1]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

L.seed_everything(1)
data = torch.utils.data.TensorDataset(torch.arange(24), torch.randn(24, 4))
loader = StatefulDataLoader(data, batch_size=4, shuffle=True)
model = Model()
""",
    """\
trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
)
""",
    "trainer.fit(model, loader)",
]
WITH_TRANSFORMERS = [
    TRAINED,
    """\
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

class Model(LlamaForCausalLM):
    def forward(self, input_ids, labels=None, **words):
        ends(int(input_ids.sum()))
        return super().forward(input_ids, labels=labels, **words)

set_seed(1)
model = Model(LlamaConfig(vocab_size=64, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                          num_attention_heads=2, num_key_value_heads=2, attention_dropout=0.1))
rows = torch.randint(0, 64, (40, 6), generator=torch.Generator().manual_seed(7))
data = [{"input_ids": row, "labels": row} for row in rows]
""",
    """\
args = TrainingArguments(output_dir="results", num_train_epochs=2, report_to="none", use_cpu=True)
trainer = Trainer(model=model, args=args, train_dataset=data)
""",
    "output = trainer.train()",
]


def train(path: Path, end_at: int = 0) -> dict[str, Any]:
    """The notebook as it is in its file."""

    def hook(step: int) -> None:
        if step == end_at:
            end(signal.SIGUSR1)

    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    return run_cells(sources, hook=hook)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("cells", "needs"),
    [(WITH_LIGHTNING, "lightning"), (WITH_TRANSFORMERS, "frameworks")],
    ids=["lightning", "transformers"],
)
def test_the_changed_notebook_goes_on_as_if_it_were_never_ended(
    cells: list[str],
    needs: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request.getfixturevalue(needs)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps(notebook([*cells])), encoding="utf-8")
    whole = train(path)
    apply_edits(path, proposed(*cells).edits)
    folder = tmp_path / "checkpoints"
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(folder))
    monkeypatch.setenv("JUPYTER_HPC_OUTPUT", str(tmp_path / "output"))
    seen: list[Any] = []
    for steps in (2, 5):
        with ended() as codes:
            train(path, steps)
        assert codes == [85] and not (folder / "DONE").exists()
        seen += whole["seen"][len(seen) : len(seen) + steps]
    last = train(path)
    assert seen + last["seen"] == whole["seen"]
    assert digest(last["model"].state_dict()) == digest(whole["model"].state_dict())
    assert (folder / "DONE").exists()
