"""What is dropped, moved, refused or reported, and that the report names it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.convert import Options, convert
from jupyter_hpc.batch.job.files import prepare_script
from tests.batch.notebooks import AnyCell, Code, Text, converted, run_script, write_notebook


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%nosuchmagic a b", "%nosuchmagic is not known"),
        ("x = 1\n%%nosuchcell\nx", "%nosuchcell is not known"),
        ("y = 0\n%%time\nx = 1", "%%time stands below the first line"),
        ("%%R\nx <- 1", "another language"),
        ("%debug f(1)", "nobody is there"),
        ("import ipywidgets as w\nclass Own(w.DOMWidget): pass", "control of the notebook's own"),
        ("from ipywidgets import VBox as V\nif 1:\n  class Own(V): pass", "needs a browser"),
        ("from IPython.html import widgets\nclass O(widgets.Widget): pass", "needs a browser"),
        ("%save a.py 1-2", "writes what was typed"),
        ("magics = %lsmagic\nprint(magics)", "Only a notebook knows the value"),
        ("%history -f all.py", "more than the cells of this notebook"),
        ("%history ~1/1-3", "more than the cells of this notebook"),
        ("for i in range(2):\n    %history", "more than the cells of this notebook"),
        ("%store x", "from one notebook to the next"),
        ("!sleep 100 &", "in the background"),
        ("%%bash --bg --proc p\nsleep 1", "in the background"),
        ("%run other.ipynb", "was not found"),
        ("from IPython.core.magic import Magics", "magics of its own"),
        ("%%time x = 1\ny = 2", "%%time cannot have code"),
        ("import _hpc", "the name _hpc"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_cell(
    cell: str, words: str, tmp_path: Path
) -> None:
    conversion = converted(tmp_path, [Text("intro"), cell])
    assert not conversion.ok and conversion.script == ""
    assert conversion.refusals[0].cell == (0 if "_hpc" in cell else 2)
    assert words in str(conversion.refusals[0])


def test_every_magic_and_shell_line_is_in_the_report(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "%matplotlib inline\nimport os\n\n!ls\nx = !ls\n%cd ..",
        "print('''\n%not a magic\n''')\nfor i in x:\n    !echo {i}\n    %time y = 1\nx?",
        "%%time  # with what it takes\nx\n!echo inside",
        "%%bash\necho",
        "ls",
        "%load_ext tensorboard\n# != and !\n%tensorboard --logdir x\n"
        "!echo a \\\n  b\n!apt install x",
    ]
    changes = converted(tmp_path, cells).changes
    lines = {(c.cell, c.line) for c in changes}
    assert {(1, 1), (1, 4), (1, 5), (1, 6), (2, 5), (2, 6), (2, 7)} <= lines
    assert {(3, 1), (3, 3), (4, 1), (5, 1), (6, 1), (6, 3), (6, 4), (6, 6)} <= lines
    assert (2, 2) not in lines
    assert all(change.what and change.why and change.source for change in changes)


def test_the_history_is_that_of_the_cells_so_far(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        Text("intro"),
        "x = 1\ny = 2",
        "",
        "!true",
        "%history",
        "%hist -n 1-2 4",
    ]
    ran = run_script(converted(tmp_path / "n", cells), tmp_path / "w")
    assert ran.outputs[5].text == "x = 1\ny = 2\n!true\n%history"
    assert ran.outputs[6].text == "   1:\nx = 1\ny = 2\n   2: !true\n   4: %hist -n 1-2 4"


def test_installs_and_downloads_move_to_the_prepare_step(tmp_path: Path) -> None:
    conversion = converted(
        tmp_path,
        [
            "URL = 'https://example.org/data.zip'",
            "!pip install -q torch==2.1 'numpy<2' -r more.txt\n%pip install pandas",
            "!wget {URL} -O data.zip && unzip data.zip",
            "!git clone https://example.org/repo\n%cd repo\n!pip install -e .",
            "!apt-get install -y graphviz",
            "%%bash\n# data\ncurl -O https://example.org/x\nconda install -y foo",
            "import sys\n!{sys.executable} -m pip install rich",
            "!pip list\n!pip3 list",
            "!pip3 install one two\n%pip3 install three\n!sudo pip3.9 install four",
            "%%bash\npip3 install five",
            "for u in [URL]:\n    !wget {u}",
        ],
    )
    assert conversion.ok
    commands = [step.command for step in conversion.prepare]
    assert commands == [
        "pip install -q torch==2.1 'numpy<2' -r more.txt",
        "pip install pandas",
        "wget https://example.org/data.zip -O data.zip",
        "git clone https://example.org/repo",
        "cd repo",
        "pip install -e .",
        "apt-get install -y graphviz",
        "curl -O https://example.org/x",
        "conda install -y foo",
        "python -m pip install rich",
        *("pip3 install one two", "pip3 install three", "sudo pip3.9 install four"),
        "pip3 install five",
    ]
    assert [step.kind for step in conversion.prepare][6] == "system"
    assert conversion.requirements == (
        *("torch==2.1", "numpy<2", "-r more.txt", "pandas", "-e .", "rich"),
        *("one", "two", "three", "four", "five"),
    )
    body = [line for line in conversion.script.splitlines() if not line.startswith("#")]
    assert not any(
        "pip install" in line or "pip3 install" in line or "wget https" in line for line in body
    )
    assert "_hpc.sh('unzip data.zip')" in body
    assert "_hpc.sh('pip list')" in body and "_hpc.sh('pip3 list')" in body
    assert any("needs the Internet" in notice.message for notice in conversion.notices)


def test_a_download_happens_in_its_folder(tmp_path: Path) -> None:
    conversion = converted(
        tmp_path,
        [
            "WHERE = 'my data'",
            "!mkdir '{WHERE}'; cd '{WHERE}' && wget https://example.org/x.zip && unzip x.zip",
            "!false; pip install rich; echo shown",
        ],
    )
    commands = [step.command for step in conversion.prepare]
    assert commands == [
        "mkdir -p 'my data' && cd 'my data' && wget https://example.org/x.zip",
        "pip install rich",
    ]
    script = prepare_script(conversion.prepare, "a.ipynb")
    assert script.count("try bash -c ") == 2 and "|| exit 1" not in script
    assert conversion.requirements == ("rich",)
    assert "mkdir -p '{WHERE}'; cd '{WHERE}' && unzip x.zip" in conversion.script
    assert "_hpc.sh('false; echo shown')" in conversion.script


def test_hidden_state_is_reported(tmp_path: Path) -> None:
    conversion = converted(
        tmp_path,
        [
            Code("total = start + 1", count=5),
            Code("start = 1", count=3),
            "def later():\n    return helper() + missing\nlater",
            "def helper(): return 1\n[n for n in range(3)]\nprint(total)",
            "lambda a: a + nowhere",
        ],
    )
    messages = {(n.cell, n.message) for n in conversion.notices}
    assert (
        1,
        "'start' is used here, but gets its value only in cell 2. "
        "Cell 2 was run before this one (3 before 5).",
    ) in messages
    assert (3, "'missing' is used here, but no cell gives it a value.") in messages
    assert (5, "'nowhere' is used here, but no cell gives it a value.") in messages
    assert len(messages) == 3


def test_nothing_is_said_about_names_after_a_star_import(tmp_path: Path) -> None:
    assert converted(tmp_path, ["from math import *", "sin(x)"]).notices == ()


@pytest.mark.parametrize(
    ("internet", "words"),
    [
        ("unknown", "usually have no Internet"),
        ("no", "of this cluster have no Internet"),
        ("proxy", "through a proxy"),
        ("yes", ""),
    ],
)
def test_what_is_said_of_downloads_follows_the_site(
    tmp_path: Path, internet: str, words: str
) -> None:
    path = write_notebook(
        tmp_path / "a.ipynb", ["from t import Model\nm = Model.from_pretrained('small')"]
    )
    notices = convert(path, Options(internet=internet)).notices
    assert len(notices) == bool(words) and all(words in each.message for each in notices)


def test_notices_about_downloads_stored_errors_and_processes(tmp_path: Path) -> None:
    conversion = converted(
        tmp_path,
        [
            "import torchvision\nd = torchvision.datasets.MNIST('.', download=True)",
            "import multiprocessing\nmultiprocessing.set_start_method('spawn')\ndef f(): pass",
            Code("1 / 0", outputs=({"output_type": "error", "ename": "ZeroDivisionError"},)),
            "open('/content/drive/x')",
        ],
    )
    text = "\n".join(f"{n.cell} {n.message}" for n in conversion.notices)
    for words in ("1 torchvision.datasets.MNIST() downloads", "4 /content"):
        assert words in text
    assert not any(notice.cell == 2 for notice in conversion.notices)  # a script can do it
    as_it_is = conversion.as_notebook().notices
    assert [(n.cell, n.line) for n in as_it_is if "Processes" in n.message] == [(2, 2)]
    assert "3 This cell ended with ZeroDivisionError" in text


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        ("import multiprocessing as mp\nc = mp.get_context(method='forkserver')", [2]),
        ("from torch import multiprocessing as mp\nmp.spawn(own)", [2]),
        ("import torch\ntorch.multiprocessing.spawn(own, nprocs=2)", [2]),
        ("import torch\nDataLoader(own, num_workers=2, multiprocessing_context='spawn')", [2]),
        ("DataLoader(own, num_workers=2)\nDataLoader(own)\nDataLoader(own, num_workers=0)", [1]),
        ("with ProcessPoolExecutor() as p: p.map(own, x)", [1]),
        ("mp.Process(target=own)\nmp.Process(target=len)", [1]),
        ("mp.set_start_method('fork')\nDataLoader(own, num_workers=2)", []),
        ("enemies = ['spawn']\ngame.spawn('forkserver')\nprint('spawn')", []),
    ],
)
def test_processes_of_a_notebook_that_runs_as_it_is(
    cell: str, lines: list[int], tmp_path: Path
) -> None:
    conversion = converted(tmp_path, [cell, "def own(): pass"])
    found = [n for n in conversion.as_notebook().notices if "know the functions" in n.message]
    assert [notice.line for notice in found] == lines
    assert not any("know the functions" in notice.message for notice in conversion.notices)
    assert not converted(tmp_path, [cell]).notebook_notices  # nothing of its own


def test_comments_and_markdown_survive(tmp_path: Path) -> None:
    script = converted(tmp_path, [Text("# Title\n\ntext"), "x = [1]  # one\n# alone\nx"]).script
    for line in ("# # Title", "# text", "x = [1]  # one", "# alone", "# %% [cell 2]"):
        assert line in script.splitlines()


def test_a_failure_names_its_cell(tmp_path: Path) -> None:
    cells: list[AnyCell] = ["def broken():\n    return 1 / 0", Text("text"), "x = 1\nbroken()"]
    ran = run_script(converted(tmp_path, cells), tmp_path / "script")
    assert ran.code == 1
    assert "ZeroDivisionError" in ran.stderr
    assert "defined in cell 1" in ran.stderr
    assert "failed in cell 3 of a.ipynb" in ran.stderr


def test_a_notebook_that_another_one_runs(tmp_path: Path) -> None:
    write_notebook(tmp_path / "base.ipynb", [Text("setup"), "!echo from base\nseed = 7", "seed"])
    conversion = converted(tmp_path, ["%run base.ipynb\nseed + 1", "seed"])
    ran = run_script(conversion, tmp_path / "script")
    assert ran.outputs[1].text == "from base\n7\n8"
    assert (1, "base.ipynb: !echo from base") in {(c.cell, c.source) for c in conversion.changes}
    write_notebook(tmp_path / "base.ipynb", ["%run base.ipynb"])
    assert "in a circle" in str(converted(tmp_path, ["%run base.ipynb"]).refusals[0])


def test_colab_and_widgets_have_stand_ins(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "from google.colab import drive, files\ndrive.mount('/content/drive')",
        "try:\n    import google.colab\n    where = 'colab'\n"
        "except ImportError:\n    where = 'here'\nwhere",
        "import ipywidgets as widgets\nfrom ipywidgets import interact, fixed",
        "@interact(x=(0, 10), y=['a', 'b'], z=True)\ndef f(x, y, z, w=2):\n    print(x, y, z, w)",
        "s = widgets.IntSlider(value=3, min=1)\nb = widgets.Button(description='go')\n"
        "b.on_click(print)\ns.value",
        "interact(lambda a, b: print(a, b), a=0.5, b=fixed(4));",
        "widgets.interactive(print, )",
        "from IPython.html.widgets import interact\ninteract(lambda a: print(a), a=1);",
        "interact(lambda a, b, c: print(a, b, c), a=(1, 10, 2), b=(0.0, 1.0, 0.4), c=(0.0, 3));",
        # As a module beside the notebook would make it, which imports ipywidgets itself.
        "Real = type('Real', (), {'__module__': 'ipywidgets.widgets', 'value': 7})\n"
        "interact(lambda a: print(a), a=Real());",
        "widgets.jslink((s, 'value'), (s, 'value')).unlink()",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "script")
    assert ran.code == 0, ran.stderr
    assert [ran.outputs[n].text for n in (2, 4, 5, 6, 8, 9, 10)] == [
        *("'here'", "5 a True 2", "3", "0.5 4", "1", "5 0.4 1.5", "7"),
    ]
    assert "not mounted" in ran.stderr


def test_questions_must_be_answered(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "name = input('Who? ')\nprint('hello', name)",
        "from getpass import getpass\nkey = getpass()\nprint(len(key))",
    ]
    conversion = converted(tmp_path, cells)
    kinds = {p.name: p.kind for p in conversion.parameters}
    assert kinds == {"name": "question", "KEY": "secret"}
    ran = run_script(conversion, tmp_path / "one")
    assert ran.code == 1 and "--set name=" in ran.stderr
    ran = run_script(conversion, tmp_path / "two", ["--set", "name=you"], {"KEY": "abc"})
    assert ran.outputs[1].text == "Who?\nhello you" and ran.outputs[2].text == "3"


def test_debug_is_dropped_with_a_note(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["1\n%debug", "print(2)"])
    assert [(n.cell, n.line) for n in conversion.notices] == [(1, 2)]
    assert "nobody is there" in conversion.notices[0].message
    assert "%debug  (dropped)" in conversion.script
    assert run_script(conversion, tmp_path / "script").outputs[2].text == "2"


def test_cells_that_are_not_python_can_be_left_out(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        "x = 1",
        "!pip install a\nx = ____ fill in",
        "%%time\n...\ndef f(:",
        "return 5",
        "print(x)",
    ]
    path = write_notebook(tmp_path / "a.ipynb", cells)
    assert [r.cell for r in convert(path).refusals] == [2, 3, 4]
    assert "--skip-invalid" in str(convert(path).refusals[0])
    conversion = convert(path, Options(frozenset(), skip_invalid=True))
    assert conversion.ok and not conversion.prepare and not conversion.requirements
    assert [n.cell for n in conversion.notices] == [2, 3, 4]
    assert all("left out" in n.message for n in conversion.notices)
    assert {change.cell for change in conversion.changes} == {1}
    assert "# %% [cell 2] left out: it is not Python\n# !pip install a\n" in conversion.script
    assert run_script(conversion, tmp_path / "script").outputs[5].text == "1"


def test_a_notebook_that_runs_as_it_is_has_no_changes(tmp_path: Path) -> None:
    from_ipython = "from IPython.core.completer import completion_matches"
    conversion = converted(tmp_path, ["EPOCHS = 2\n!ls\n", f"{from_ipython}\nEPOCHS"])
    assert len(conversion.changes) == 3 and len(conversion.notices) == 1
    as_it_is = conversion.as_notebook()
    assert [change.source for change in as_it_is.changes] == ["EPOCHS = 2"]
    assert not as_it_is.notices and as_it_is.mode == "notebook"


def test_a_question_in_a_loop_has_no_single_answer(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["while True:\n    q = input()\n    break"])
    assert conversion.parameters[0].repeated


def test_a_bare_exit_ends_the_run(tmp_path: Path) -> None:
    ran = run_script(converted(tmp_path, ["print(1)", "exit", "print(2)"]), tmp_path / "script")
    assert ran.code == 0 and ran.outputs[1].text == "1" and 3 not in ran.outputs
