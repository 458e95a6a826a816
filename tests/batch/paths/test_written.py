"""Which paths a notebook's code is seen to write."""

from __future__ import annotations

import json
import time

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
    # Of a job, whatever stands in for it in a session.
    "d = os.environ.get('JUPYTER_HPC_CHECKPOINTS', 'ckpt')\nnp.save(d + '/w.npy', x)": [
        "$JUPYTER_HPC_CHECKPOINTS/w.npy",
    ],
    "np.save(os.path.join(os.environ['JUPYTER_HPC_OUTPUT'], 'w.npy'), x)": [
        "$JUPYTER_HPC_OUTPUT/w.npy",
    ],
    "np.save(os.environ.get('PLACE', 'here') + '/w.npy', x)": ["*/w.npy"],
    "accelerator.save_state('ckpt')": ["ckpt/**"],
    "OmegaConf.save(cfg, 'a.yaml')": ["a.yaml"],
    "np.lib.format.open_memmap('a.npy', mode='w+')": ["a.npy"],
    # Behind a dot or a key.
    "class Stop:\n    def __init__(self, path='best.pt'):\n        self.path = path\n"
    "    def save(self, m):\n        torch.save(m, self.path)\nStop()\nStop(path='mine.pt')": [
        *("best.pt", "mine.pt"),
    ],
    "class CFG:\n    out = 'm.pt'\ntorch.save(m, CFG.out)": ["m.pt"],
    "class A:\n    def __init__(self):\n        self.p = 'm.pt'\nclass B(A, B):\n"
    "    def f(self):\n        torch.save(m, self.p)": ["m.pt"],
    "class C:\n    out: str = 'm.pt'\nconfig = C()\nconfig.log = 'l.txt'\n"
    "torch.save(m, config.out)\nopen(config.log, 'w')": ["m.pt", "l.txt"],
    "class D:\n    def __init__(self, out='ckpt'):\n        self.out = Path(out)\n"
    "    def go(self, n):\n        torch.save(m, self.out / f'e{n}.pt')\nD().go(1)": ["ckpt/e1.pt"],
    "cfg = {'out': {'w': 'm.pt'}}\ncfg['log'] = 'l.txt'\ndef go(c):\n"
    "    torch.save(m, c['out']['w'])\n    open(c['log'], 'w')\ngo(cfg)": ["m.pt", "l.txt"],
    "args = SimpleNamespace(out='m.pt')\ntorch.save(m, args.out)": ["m.pt"],
    "cfg = edict({'out': 'm.pt'})\ntorch.save(m, cfg.out)": ["m.pt"],
    "cfg = dict(out='m.pt')\ntorch.save(m, Namespace(**cfg).out)": ["m.pt"],
    "p.add_argument('-o', '--out-file', default='m.pt')\nargs, _ = p.parse_known_args()\n"
    "torch.save(m, args.out_file)": ["m.pt"],
    "x = 'a'\nx = x + 'b'\ny = y + x\nnp.save(x, 1)": ["a.npy", "*b.npy"],
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
    "class A:\n    def __init__(self):\n        self.p = 'a'\n"
    "class B:\n    def f(self):\n        torch.save(m, self.p)",
    "cfg = {'data': 'a.csv'}\ntorch.save(m, cfg['out'])",
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


def test_names_that_are_made_of_each_other_take_no_time() -> None:
    names = [
        f"a{n} = a{(n + 1) % 9} + a{(n + 2) % 9}\n"
        f"a{n} = os.path.join(a{(n + 3) % 9}, c['k'], a{(n + 5) % 9})\nc['k'] = c['k'] + a{n}"
        for n in range(9)
    ]
    start = time.process_time()
    written_paths("\n".join(["c = {'k': 'x'}", *names, "np.save(a0, 1)\nnp.save(c['k'], 1)"]))
    assert time.process_time() - start < 1


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


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("mv a.txt out  # to the folder", ["out", "out/a.txt"]),
        ("cp -r in/a b '#c'", ["#c", "#c/a", "#c/b"]),
        ("tar -xzf a.tgz -C data", ["data"]),
        ("tar xf a.tar -C data; tar --extract --file b -C more", ["data", "more"]),
        ("tar -cf a.tar -C data .", []),
        ("tar czf a.tgz -C data x", []),
        ("sed -i 's/a/b/' c.txt", ["c.txt"]),
        ("sed 's/a/b/' c.txt", []),
        ("gunzip a.csv.gz", ["a.csv"]),
        ("echo x # > a.txt", []),
    ],
)
def test_what_shell_lines_write(line: str, paths: list[str]) -> None:
    assert [each.path for each in written_paths(f"os.system({line!r})")] == paths


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
