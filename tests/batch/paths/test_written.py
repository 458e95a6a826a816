"""Which paths a notebook's code is seen to write."""

from __future__ import annotations

import json

import pytest

from jupyter_hpc.batch.convert.convert import convert_text
from jupyter_hpc.batch.paths.written import overwritten, unknown_folders, written_paths
from tests.batch.notebooks import notebook

SEEN = {
    "open('a', 'w')": ["a"],
    "open('a', mode='ab')": ["a"],
    "open('a', 'r+')": ["a"],
    "print('x', file=open('log.txt', 'a'))": ["log.txt"],
    "import json\nwith open('a.json', 'x') as f:\n    json.dump({}, f)": ["a.json"],
    "np.save('weights', x)": ["weights.npy"],
    "import numpy as xp\nxp.savez('w.npz', x)": ["w.npz"],
    "np.savetxt('a.txt', x)": ["a.txt"],
    "torch.save(model.state_dict(), 'm.pt')": ["m.pt"],
    "torch.save(m, f=f'm_{lr}.pt')": ["m_*.pt"],
    "from joblib import dump\ndump(m, 'm.joblib')": ["m.joblib"],
    "df.to_csv('a.csv', index=False)": ["a.csv"],
    "df.to_parquet(path='a.parquet')": ["a.parquet"],
    "frame.write_csv('a.csv')": ["a.csv"],
    "plt.savefig('f.png')": ["f.png"],
    "Path('a', 'b')\nPath('t.txt').write_text('x')": ["t.txt"],
    "p = Path('d') / 'e.bin'\np.write_bytes(b'')": ["d/e.bin"],
    "with Path('a').open('w') as f:\n    pass": ["a"],
    "shutil.copy('a', 'out/a')": ["out/a"],
    "os.makedirs('out/deep', exist_ok=True)": ["out/deep/"],
    "Path('out').mkdir()": ["out/"],
    "h5py.File('d.h5', 'w')": ["d.h5"],
    "model.save('m.keras')": ["m.keras"],
    "model.save_pretrained('best')": ["best/**"],
    "from torch.utils.tensorboard import SummaryWriter\nSummaryWriter()": ["runs/"],
    "SummaryWriter(log_dir='tb')": ["tb/"],
    "L.Trainer(max_epochs=1)": ["lightning_logs/"],
    "CSVLogger('logs')": ["logs/**"],
    "tarfile.open('a.tgz').extractall('data')": ["data/**"],
    "optuna.create_study(storage='sqlite:///s.db')": ["s.db"],
    "OUT = 'res'\nnp.save(os.path.join(OUT, 'w.npy'), x)": ["res/w.npy"],
    "for n in ['a', 'b']:\n    plt.savefig(n + '.png')": ["a.png", "b.png"],
    "torch.save(m, 'e%03d.pt' % epoch)": ["e*.pt"],
    "torch.save(m, 'e{}.pt'.format(epoch))": ["e*.pt"],
    "def save(m, path='best.pt'):\n    torch.save(m, path)\nsave(m)\nsave(m, 'last.pt')": [
        *("best.pt", "last.pt"),
    ],
    "np.save('../models/w.npy', x)": ["../models/w.npy"],
    "np.save('/project/w.npy', x)": ["/project/w.npy"],
}

NOT_SEEN = [
    "open('a')",
    "open('a', 'rb')",
    "Image.open('a.png')",
    "h5py.File('d.h5')",
    "np.load('a.npy')",
    "df.rename('a')",
    "'a'.replace('a', 'b')",
    "requests.get('http://a/b')",
    "torch.save(m, path)",
    "torch.save(m, buffer)",
    "df.to_csv()",
    "MNIST('data', download=True)",
    "x = 'a > b.txt'",
    "this is no Python",
]


def shown(code: str) -> list[str]:
    marks = {"file": "", "folder": "/", "below": "/**"}
    return [each.path + marks[each.effect] for each in written_paths(code)]


@pytest.mark.parametrize("code", SEEN)
def test_what_is_written_is_seen(code: str) -> None:
    assert shown(code) == SEEN[code]


@pytest.mark.parametrize("code", NOT_SEEN)
def test_what_is_read_is_not(code: str) -> None:
    assert shown(code) == []


def test_a_converted_notebook_with_magics_and_shell_lines_names_its_cells() -> None:
    cells = [
        "OUT = 'res'\nlr = 0.1",
        "!mkdir -p {OUT} && echo hi > {OUT}/a.txt 2>&1",
        "%%writefile helper.py\nprint(1)",
        "%%bash\necho x >> log.txt\ncat < in.txt",
        "np.save(f'{OUT}/w_{lr}.npy', [lr])",
    ]
    script = convert_text(json.dumps(notebook(cells)), "a.ipynb").script
    found = {each.path: each.cell for each in written_paths(script)}
    assert found == {
        "res/a.txt": 2, "res": 2, "helper.py": 3, "log.txt": 4, "res/w_0.1.npy": 5,
    }  # fmt: skip
    runs = {each.path for each in written_paths(script, {"lr": [0.2, 0.3], "OUT": ["o"]})}
    assert {"o/a.txt", "o/w_0.2.npy", "o/w_0.3.npy"} <= runs and "res/a.txt" not in runs


def test_code_that_goes_elsewhere_writes_there() -> None:
    code = "open('first', 'w')\nos.chdir('/data/p')\nopen('w.npy', 'w')\n"
    code += "os.chdir('..')\nopen('x', 'w')"
    assert [each.path for each in written_paths(code)] == [
        *("first", "w.npy", "/data/p/w.npy", "x", "/data/x"),
    ]
    lost = unknown_folders("# %% [cell 4]\nos.chdir(os.environ['PLACE'])\nos.chdir('a')")
    assert [(each.by, each.cell) for each in lost] == [("os.chdir", 4)]


@pytest.mark.parametrize(
    ("code", "adds"),
    [
        ("open('a', 'a')", True),
        ("open('a', 'w')", False),
        ("open('a', 'a' if n else 'w')", False),
        ("df.to_csv('a', mode='a')", True),
        ("df.to_csv('a')", False),
        ("logging.FileHandler('a')", True),
        ("logging.basicConfig(filename='a', filemode='w')", False),
        ("os.system('echo x >> a')", True),
        ("os.system('echo x > a')", False),
        ("Path('a').open('a')", True),
    ],
)
def test_what_is_added_to_is_told_from_what_is_replaced(code: str, adds: bool) -> None:
    assert [(each.path, each.adds) for each in written_paths(code)] == [("a", adds)]


def test_a_star_is_within_one_name_and_a_folder_has_what_is_below() -> None:
    paths = written_paths("torch.save(m, f'out/e{n}.pt')\nm.save_pretrained('best')")
    names = ["out/e1.pt", "out/e[1].pt", "out/x.pt", "out/e/1.pt", "best/a/b", "best2/a"]
    assert overwritten(paths, names) == ("out/e1.pt", "out/e[1].pt", "best/a/b")
    folder = written_paths("os.makedirs('out')")
    assert overwritten(folder, ["out/a"]) == ()
