"""Stand-ins for what only a notebook has: its shell, and the services of Colab."""

from __future__ import annotations

import importlib
import os
import types
from typing import Any

from jupyter_hpc.batch.runtime.display.display import display
from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.own_magics import run_cell
from jupyter_hpc.batch.runtime.script.parameters import secret
from jupyter_hpc.batch.runtime.script.state import RUN


class InteractiveShell:
    """What is left of a notebook's shell in a batch job: names and settings."""

    ast_node_interactivity = "last_expr"
    _instance: InteractiveShell | None = None

    @classmethod
    def instance(cls, *_: Any, **__: Any) -> InteractiveShell:
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    @property
    def user_ns(self) -> dict[str, Any]:
        return RUN.names

    @property
    def execution_count(self) -> int:
        return RUN.executed

    def run_cell(self, text: str, *_: Any, **__: Any) -> None:
        """Run code as a cell."""
        run_cell(text)

    def __repr__(self) -> str:
        return "<the shell of a batch job>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"A batch job has no interactive shell, so get_ipython().{name} is not there; "
            "run it as an executed notebook instead (--mode notebook)."
        )


def shell() -> InteractiveShell:
    """Stands for get_ipython()."""
    return InteractiveShell.instance()


class colab_drive:
    """Google Drive is not there on a cluster."""

    @staticmethod
    def mount(mountpoint: Any, *_: Any, **__: Any) -> None:
        log(f"Google Drive is not mounted in a batch job; {mountpoint} is a plain path")

    @staticmethod
    def flush_and_unmount(*_: Any, **__: Any) -> None:
        return None


class colab_files:
    """Files stay where they are."""

    @staticmethod
    def upload(*_: Any, **__: Any) -> dict[str, bytes]:
        raise RuntimeError("Nobody can upload a file to a batch job; stage it with the job.")

    @staticmethod
    def download(path: Any) -> None:
        log(f"the file {path} stays in the results of the job")

    @staticmethod
    def view(path: Any) -> None:
        log(f"the file {path} stays in the results of the job")


class colab_userdata:
    """Secrets come from the environment of the job."""

    @staticmethod
    def get(name: str) -> str:
        return secret(name)


class colab_auth:
    """Signing in to Google is left to the environment."""

    @staticmethod
    def authenticate_user(*_: Any, **__: Any) -> None:
        log("no sign-in to Google in a batch job; credentials come from the environment")


class _Nothing:
    """Takes every call and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return None


colab_output = _Nothing()
colab_data_table = _Nothing()


def cv2_imshow(image: Any) -> None:
    """Show an OpenCV image."""
    done, data = importlib.import_module("cv2").imencode(".png", image)
    if done:
        display({"image/png": data.tobytes()}, raw=True)


def token_login(variables: list[str], files: list[str], *_: Any, **__: Any) -> None:
    """A sign-in that asks in a notebook; here the token must already be there."""
    for variable in variables:
        if os.environ.get(variable):
            return
    for file in files:
        if os.path.exists(os.path.expanduser(file)):
            return
    raise RuntimeError(
        f"Cell {RUN.cell} signs in to a service. Put its token into the environment "
        f"variable {variables[0]} of the job."
    )


class core:
    """Stands for IPython.core in `IPython.core.display.HTML`."""

    display = staticmethod(display)


google = types.SimpleNamespace(
    colab=types.SimpleNamespace(
        drive=colab_drive, files=colab_files, userdata=colab_userdata, auth=colab_auth
    )
)
