"""alice's laptop and her notebook before the replica of a site, with the command line."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

from tests.batch.notebooks import notebook
from tests.cluster.authority import certify
from tests.cluster.laptop import profile_toml
from tests.cluster.layout import ENV_PATH
from tests.cluster.replica import Replica
from tests.connect.real.sessions import Session, command, environment, run
from tests.connect.setup.stand_ins import make_wheels
from tests.sites.table import WHEELS, Site

#: A training that writes where it works, and then tells where that was and in which environment.
_CELLS = (
    "import os, pathlib, sys\nEPOCHS = 3\npathlib.Path('models').mkdir(exist_ok=True)\n"
    "pathlib.Path('models/w.txt').write_text(pathlib.Path('data.txt').read_text())",
    "print('worked in', os.getcwd())\nprint('runs on', os.environ['SLURM_JOB_PARTITION'])\n"
    "print('python of', sys.prefix, 'after', os.environ.get('SITE_PYTHON', 'no module'))",
)


class Desk:
    """Everything is done with the built-in profile of the site.

    What alice's own file adds to it is the address of this cluster, a quick pace of polling, and
    what she has to say of herself.
    """

    def __init__(self, cluster: Replica, name: str, site: Site, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.laptop = cluster.laptop("alice", name)
        if cluster.switches.certificates:
            certify(cluster, self.laptop, 3600)
        sections = site.sections
        sections["login"] = {"host": "login1", "ssh_config": str(self.laptop.ssh_config)}
        sections.setdefault("slurm", {})["poll_seconds"] = 3
        path = self.laptop.home / ".jupyter/hpc/clusters" / f"{name}.toml"
        path.parent.mkdir(parents=True)
        path.write_text(f'extends = "{name}"\n{profile_toml(name, sections)}', encoding="utf-8")
        (folder / "train.ipynb").write_text(json.dumps(notebook(list(_CELLS))), encoding="utf-8")
        (folder / "data.txt").write_text("seven", encoding="utf-8")
        make_wheels(cluster.shared(WHEELS.rpartition("/")[2]), lender=ENV_PATH)

    def hpc(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """One command of jupyter-hpc that ends with one of these codes; what it says."""
        done = subprocess.run(
            command(*words), cwd=self.folder, env=environment(self.laptop),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode in codes, f"{words}: {done.returncode}\n{said}"
        return said if done.returncode else done.stdout

    def doctor(self, code: int) -> dict[str, dict[str, str]]:
        """The lines of a check-up by their names."""
        text = self.hpc("doctor", self.name, "--json", codes=(code,))
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return {line["check"]: line for line in lines if "check" in line}

    def panel(self, session: Session, path: str) -> Any:
        """What a section of the panel shows."""
        url = urllib.parse.urlsplit(run(self.laptop, "url", self.name).stdout.strip())
        token = urllib.parse.parse_qs(url.query)["token"][0]
        status, body, _ = session.get(f"/jupyter-hpc/{path}", {"Authorization": f"token {token}"})
        assert status == 200, (path, body)
        return json.loads(body)
