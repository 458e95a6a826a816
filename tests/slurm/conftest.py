"""Every test that reads recorded answers runs on those of each release of Slurm."""

from __future__ import annotations

import pytest

from tests.slurm import runners


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if hasattr(metafunc.module, "recording"):
        metafunc.fixturenames.append("release")
        metafunc.parametrize("release", runners.RELEASES, indirect=True)


@pytest.fixture
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The release whose answers `recording` gives."""
    chosen: str = request.param
    monkeypatch.setattr(runners, "current_release", chosen)
    return chosen
