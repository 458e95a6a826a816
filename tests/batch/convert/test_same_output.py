"""Every construct: the notebook run by nbclient and the script run by plain Python agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.batch.notebooks import AnyCell, Code, Text, converted, run_notebook, run_script

FAMILIES: dict[str, Sequence[AnyCell]] = {
    "values": [
        Text("# Shown values"),
        "x = 5\nx",
        "x;",
        "None",
        "'text'",
        "1, 'two', [3.0]",
        "(x +\n  1)  # a comment",
        "(x + 1) * 2, (x)",
        "(x), (x - 1)",
        "(x),",
        "((x), (x))",
        "(x,  # first\n  2)",
        "*range(3), (x)",
        "list(range(40))",
        "{'key %d' % i: {'deep': list(range(8)), 'more': 'x' * 20} for i in range(6)}",
        "{3, 1, 2}, frozenset('ba')",
        "import collections\ncollections.OrderedDict(a=1), collections.Counter('hello')",
        "class Point:\n    def __repr__(self): return 'P(\\n x)'\n[Point(), Point()]",
        "print('a'); 7 if x else 8",
        "import sys\nprint('a', end='')\ndisplay(7)\nsys.stdout.write('b')",
        "if x:\n    x\nelse:\n    8",
        "len, int, ValueError('no')",
        "y = x  # nothing is shown",
        "_ = 3\n_",
        "'''a\n  b'''",
        "def f(a, b=2): return a\nf",
    ],
    "display": [
        "display(1, 'two', [3])",
        "from IPython.display import display as d, HTML, clear_output\nd(HTML('<b>x</b>'))",
        "HTML('<i>shown</i>')",
        "from IPython import display as dd\ndd.display(dd.Markdown('*a*'))",
        "import IPython\nIPython.display.display(IPython.display.HTML('x'))",
        "class Rich:\n    def _repr_html_(self): return '<p>rich</p>'\n"
        "    def __repr__(self): return 'Rich()'\nRich()",
        "class Both:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'text/plain': 'bundle', 'text/html': '<p/>'}\nBoth()",
        "h = display('first', display_id=True)\nh is not None",
        "display('named', display_id='name')",
        "from IPython.display import update_display\nprint('a')\n"
        "h = display(HTML('<p>1</p>'), 'one', display_id='bar')\nprint('b', end='')",
        "h.update('two')\nupdate_display('renamed', display_id='name')",
        "update_display('nowhere', display_id='none')\nprint('end')",
        "from IPython.display import YouTubeVideo, IFrame, FileLink, FileLinks, Image\n"
        "YouTubeVideo('abc', width=300, start=10)",
        "[IFrame('https://example.org', 10, 20)]",
        "open('one.txt', 'w').close()\nFileLinks('.', included_suffixes=['.txt'])",
        "import base64\nopen('dot.png', 'wb').write(base64.b64decode("
        "'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAA"
        "SUVORK5CYII='))\nImage('dot.png')",
        "Image('dot.png', embed=False)",
        "class Shy:\n    def __repr__(self): raise ValueError('no text')\n"
        "display(Shy(), 2)\nprint('goes on')",
        "print('gone')\nclear_output()\nprint('stays')",
        "for i in range(3):\n    clear_output(wait=True)\n    print(i)",
        "print('kept')\nclear_output(wait=True)",
        "print('gone')\nclear_output()",
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.ast_node_interactivity = 'all'\n1\n2",
        "1\n2\nprint(3)",
        "4\n5;",
    ],
    "precision": [
        "import numpy as np\nnp.arange(3) / 3, 1 / 3",
        "%precision 3",
        "[1 / 3, {'a': 2.0}], 1, np.arange(3) / 3, np.float64(1 / 3)",
        "print(1 / 3)\n%precision %.2e\n1 / 3",
        "%precision",
        "1 / 3, np.arange(3) / 3",
    ],
    "history": ["6 * 7", "_", "_ + 1", "Out[1], _2", "__", "len(In) > 1"],
    "shell": [
        "import os\nname = 'wörld'\nclass A: b = 'attr'\na = A()",
        "!echo hello",
        "!echo {name} $name $a.b {1 + 1} {name[:2]}",
        "!echo $HOME_NOT_SET-",
        "!echo {name} and $$HOME_NOT_SET-",
        "!echo '$name' \"$name\"",
        "!echo out; echo err >&2; exit 3",
        "_exit_code",
        "lines = !printf 'one\\ntwo words\\n'\nlines",
        "lines.n, lines.s, lines.l, lines.fields(0), lines.grep('two')",
        "!!echo captured",
        "for i in range(2):\n    !echo turn {i}\n    out = !echo $i\n    print(out)",
        "def shell(x):\n    !echo inside {x}\n    return x\nshell('f')",
        "!mkdir -p folder && touch folder/b folder/a folder/c\n!ls folder",
        "!cd folder && pwd | xargs basename\n!ls -d folder",
        "%cd -q folder\n%pwd\n!ls",
        "%cd -q ..",
        "%%bash\necho from bash\nfor i in 1 2; do echo $i; done",
        "%%bash --out captured --err errors\necho kept; echo bad >&2",
        "captured, errors",
        "%%sh\necho sh",
        "%%script python3\nprint('a program')",
        "%%writefile note.txt\nfirst {name}\n  second",
        "%%writefile -a note.txt\nthird",
        "print(open('note.txt').read())",
        "%env MY_SETTING=42",
        "%env MY_SETTING",
        "!echo continued \\\n   line",
        "%mkdir made\n%ls -d made",
        "ls -d made",
        "%%!\necho list\necho lines",
        "%%bash --bg\necho done > background.txt",
        "import time\nfor _ in range(600):\n"
        "    if os.path.exists('background.txt') and open('background.txt').read(): break\n"
        "    time.sleep(0.1)\nprint(open('background.txt').read())",
        "%system echo magic",
    ],
    "time": [
        "%time z = 3",
        "z",
        "%time z + 1",
        "%%time\nw = z * 2\nw",
        "w",
        "%%time\nprint('only printed')",
        "%%time\n# nothing but a comment",
        "%%capture\n# nothing",
        "%timeit -n1 -r1 leak = 1",
        "'leak' in globals()",
        "%%timeit -n1 -r1\nleak2 = 2",
        "'leak2' in globals()",
        "v = %time 2 + 3\nv",
        "%%capture out\nprint('hidden')\nz",
        "out.stdout, len(out.outputs)",
        "out.show()",
        "%%capture --no-stdout\nprint('not hidden')",
        "def g():\n    %time print('inside')\ng()",
    ],
    "structure": [
        "from __future__ import annotations\nimport sys",
        "def later(x: NotDefined) -> None: pass\nlater.__name__",
        "__name__",
        "'__file__' in globals()",
        "len(sys.argv) > 0",
        Code("1 / 0", tags=("raises-exception",)),
        Code("print('never')", tags=("skip-execution",)),
        "print('after')",
        "text = '''several\n   lines\n'''\nprint(text)",
        Code(
            "for i in range(2):\n    s = f'''{i}\n  kept'''\n    print(s)",
            tags=("raises-exception",),
        ),
        ">>> prompt = 1\n>>> prompt",
        "# only a comment",
        "",
        "   indented = 1\n   indented",
        "?print",
        "print?",
        "%matplotlib inline\n%load_ext autoreload\n%autoreload 2",
        "%config Completer.use_jedi = False",
    ],
    "own magics": [
        "from IPython.core.magic import register_cell_magic, register_line_magic",
        "@register_cell_magic\ndef only(line, cell):\n    if line.strip() == 'yes':\n"
        "        get_ipython().run_cell(cell)\n    else:\n        print('not', line)",
        "%%only yes\nmade = 4\nmade",
        "%%only no\nmade = 5",
        "%%only yes\n!echo shell {made}\nmade",
        "@register_line_magic\ndef shout(line):\n    return line.upper()",
        "%shout hello",
        "loud = %shout again\nloud",
    ],
    "async": [
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x * 2",
        "a = await f(4)\na",
        "async with asyncio.Lock():\n    print('locked')\nb = [await f(i) for i in range(3)]\nb",
        "task = asyncio.create_task(f(5))",
        "await task",
        "async def gen():\n    for i in range(2):\n        yield i\n"
        "async for item in gen():\n    print(item)\nclass C:\n    n: int = 3\nC.n",
        "a, b, item",
        "q = asyncio.Queue()\nawait q.put('x')",
        "await q.get()",
    ],
    "run": [
        "%%writefile tool.py\nimport sys\nvalue = 11\nprint(__name__, sys.argv[1:])",
        "%run tool.py a {1+1}\nvalue",
        "base = 100",
        "%%writefile uses.py\nshared = base + 1",
        "%run -i uses.py\nshared",
        "open('fails.py', 'w').write('before = 1\\nprint(before)\\n1 / 0\\nafter = 2\\n');",
        "%run fails.py\nbefore, 'after' in globals()",
        "open('no.py', 'w').write('x = (');",
        "%run no.py\nprint('goes on')",
        "%who_ls int",
        "%reset -f",
        "'value' in globals()",
    ],
    "figures": [
        "from mpl_toolkits import mplot3d\nimport matplotlib.pyplot as plt",
        "plt.axes(projection='3d').plot([1], [2], [3])\nNone",
        "plt.plot([1, 2, 3])\nplt.show()",
        "fig, ax = plt.subplots()\nax.plot([1, 2])\nplt.title('implicit')",
        "for i in range(3):\n    plt.figure()\n    plt.plot([i])",
        "plt.plot([1]); plt.show(); plt.plot([2]); plt.show()",
        "fig",
        "plt.figure();",
        "fig2 = plt.figure()\nplt.plot([3])\nplt.close()",
        "plt.ioff()\nplt.plot([1, 2])\nplt.ion()\nNone",
        "plt.get_fignums()",
        "from IPython.display import display\nfig3, ax = plt.subplots()\ndisplay(fig3)",
        "%%capture\nplt.plot([1])\nplt.show()",
        "from IPython.display import clear_output\n"
        "for i in range(3):\n    clear_output(wait=True)\n"
        "    plt.plot([i])\n    plt.show()",
        "plt.plot([1])\nplt.savefig('own.png')",
        "%config InlineBackend.figure_format = 'svg'\nplt.plot([5])\nplt.show()",
        "import matplotlib\nplt.isinteractive()",
        "matplotlib.use('Agg')\nplt.plot([1])\nplt.close()",
        "%matplotlib inline\nplt.plot([2])",
        "plt.title('$not tex')\nplt.show()\nplt.title(r'$\\nosuch$')\nplt.show()\nprint('on')",
    ],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_script_shows_what_the_notebook_shows(family: str, tmp_path: Path) -> None:
    cells = FAMILIES[family]
    conversion = converted(tmp_path, cells)
    script = run_script(conversion, tmp_path / "script")
    reference = run_notebook(tmp_path / "a.ipynb", tmp_path / "notebook")
    assert reference.code == 0, reference.stderr
    assert script.code == 0, script.stderr
    for number in sorted({*reference.outputs, *script.outputs}):
        expected = reference.outputs.get(number)
        source = cells[number - 1]
        assert script.outputs.get(number) == expected, f"cell {number}: {source!r}"
    own = {n: data for n, data in script.files.items() if not n.endswith(".png")}
    theirs = {n: data for n, data in reference.files.items() if not n.endswith(".png")}
    assert own == theirs
