"""Tests of the Slurm room; what fails in a shared check is shown as in a test."""

import pytest

pytest.register_assert_rewrite("tests.slurm.bench", "tests.slurm.checks")
