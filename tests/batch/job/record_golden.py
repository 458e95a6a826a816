"""Write the golden files anew: python -m tests.batch.job.record_golden"""

from __future__ import annotations

from pathlib import Path

from jupyter_hpc.batch.job.script import script_text
from tests.batch.jobs import GOLDEN

FOLDER = Path(__file__).with_name("golden")

if __name__ == "__main__":
    for name, job in GOLDEN.items():
        (FOLDER / f"{name}.sbatch").write_text(script_text(job), encoding="utf-8")
