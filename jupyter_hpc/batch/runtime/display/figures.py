"""Figures become files: matplotlib draws without a screen, at the moments at which a
notebook shows figures, and plotly, bokeh and altair write pages."""

from __future__ import annotations

import atexit
import importlib
import importlib.abc
import importlib.machinery
import io
import os
import sys
import types
from typing import Any

from jupyter_hpc.batch.runtime.display.display import SPECIAL, carry, publish, rich_forms, tried
from jupyter_hpc.batch.runtime.display.saving import new_path
from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.ranks import is_leader
from jupyter_hpc.batch.runtime.script.state import RUN, after_import

_BACKEND = "jupyter_hpc_figures"
_KINDS = {"png": "image/png", "retina": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg"}
_KINDS.update({"svg": "image/svg+xml", "pdf": "application/pdf"})


class _Figures:
    """How figures are drawn: formats, closing, and whether any is waiting to be shown."""

    formats: tuple[str, ...] = ("png",)
    close = True
    waiting = False
    options: dict[str, Any] | None = None


def set_matplotlib_formats(*formats: Any, **options: Any) -> None:
    """Draw figures as 'png', 'retina', 'svg', 'jpeg' or 'pdf'."""
    names = [name for item in formats for name in ([item] if isinstance(item, str) else item)]
    _Figures.formats = tuple(name for name in names if name in _KINDS) or ("png",)
    _Figures.options = options


def set_matplotlib_close(close: bool = True) -> None:
    """Whether figures are closed at the end of the cell that drew them."""
    _Figures.close = close


# Where they were before they moved to matplotlib_inline.
carry(set_matplotlib_formats, set_matplotlib_close)


def figsize(width: float, height: float) -> None:
    """The default size of figures, in inches."""
    import matplotlib

    matplotlib.rcParams["figure.figsize"] = [width, height]


def draw_inline() -> None:
    """Go back to figures in files after the notebook chose another way to draw."""
    import matplotlib.pyplot

    matplotlib.pyplot.switch_backend("module://" + _BACKEND)


def _is_figure(value: Any) -> bool:
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def _drawn(figure: Any) -> dict[str, Any]:
    forms: dict[str, Any] = {}
    if figure.axes or figure.lines:
        for name in _Figures.formats:
            dpi = figure.dpi * 2 if name == "retina" else figure.dpi
            options = {"format": "png" if name == "retina" else name, "dpi": dpi}
            options.update(bbox_inches="tight", facecolor=figure.get_facecolor())
            options.update(edgecolor=figure.get_edgecolor(), **(_Figures.options or {}))
            buffer = io.BytesIO()
            figure.canvas.print_figure(buffer, **options)
            forms[_KINDS[name]] = buffer.getvalue()
    return forms


def _figure_forms(figure: Any) -> dict[str, Any] | None:
    return dict(_drawn(figure), **{"text/plain": repr(figure)})


SPECIAL.append((_is_figure, _figure_forms))


def _show_open_figures(close: bool) -> None:
    from matplotlib._pylab_helpers import Gcf

    managers = Gcf.get_all_fig_managers()
    try:
        for manager in managers if is_leader() else ():
            # The text of a figure says nothing in a log; the file is named there.
            publish(tried(_drawn, manager.canvas.figure) or {})
    finally:
        if close and managers:
            import matplotlib.pyplot

            matplotlib.pyplot.close("all")


def show_figures(*_: Any, **__: Any) -> None:
    """plt.show(): all open figures are saved and closed."""
    _show_open_figures(_Figures.close)


def flush_figures() -> None:
    """At the end of a cell, figures that were not shown are shown."""
    if not _Figures.waiting or os.getpid() != RUN.process:
        return
    _Figures.waiting = False
    try:
        _show_open_figures(_Figures.close)
    except Exception as error:
        log(f"A figure of cell {RUN.cell} could not be drawn: {error}")


RUN.before_next_cell.insert(0, flush_figures)


class _Backend(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and makes the backend when matplotlib asks for it.

    Not earlier: it needs parts of matplotlib that must not be imported before the
    notebook's own imports, such as that of mplot3d, are done.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname == _BACKEND else None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        _fill_backend(module)


def _prepare_matplotlib(matplotlib: Any) -> None:
    """Figures go to files from now on."""
    sys.meta_path.append(_Backend())
    matplotlib.rcParams["backend"] = "module://" + _BACKEND
    matplotlib.interactive(True)
    after_import("matplotlib._pylab_helpers", _flush_at_exit)


def _flush_at_exit(_: Any) -> None:
    # Behind matplotlib's own end, which forgets all figures, and so before it.
    atexit.register(flush_figures)


def _fill_backend(backend: Any) -> None:
    """A backend that draws like Agg and remembers that a figure was made."""
    import matplotlib
    from matplotlib.backends import backend_agg
    from matplotlib.figure import Figure

    class FigureCanvas(backend_agg.FigureCanvasAgg):
        def draw_idle(self, *_: Any, **__: Any) -> None:
            """Nobody looks before the figure is shown."""

    manager_class: Any = getattr(backend_agg, "FigureManager", None) or getattr(
        FigureCanvas, "manager_class", None
    )

    def new_figure_manager_given_figure(num: Any, figure: Any) -> Any:
        canvas = FigureCanvas(figure)
        if matplotlib.is_interactive():
            _Figures.waiting = True
        return manager_class(canvas, num)

    def new_figure_manager(num: Any, *args: Any, **options: Any) -> Any:
        figure = options.pop("FigureClass", Figure)(*args, **options)
        return new_figure_manager_given_figure(num, figure)

    for name, item in (
        ("FigureCanvas", FigureCanvas),
        ("FigureManager", manager_class),
        ("new_figure_manager", new_figure_manager),
        ("new_figure_manager_given_figure", new_figure_manager_given_figure),
        ("draw_if_interactive", lambda: None),
        ("show", show_figures),
    ):
        setattr(backend, name, item)


def _page(write: Any) -> dict[str, Any]:
    """Let a plotting library write its page, and answer with nothing more to show."""
    if is_leader():
        path = new_path("figures", "html")
        write(str(path))
        log("saved " + str(path))
    return {}


def _write_plotly(figure: Any) -> dict[str, Any]:
    return _page(lambda path: figure.write_html(path, include_plotlyjs="directory"))


def _prepare_plotly(module: Any) -> None:
    def show_plotly(figure: Any, *_: Any, **__: Any) -> None:
        if not hasattr(figure, "write_html"):
            figure = importlib.import_module("plotly.graph_objects").Figure(figure)
        publish(_write_plotly(figure))

    module.show = show_plotly
    offline: Any = sys.modules.get("plotly.offline")
    for holder in (offline, getattr(offline, "offline", None)):
        if holder is not None:
            holder.iplot, holder.init_notebook_mode = show_plotly, lambda *_, **__: None


def _prepare_plotly_offline(module: Any) -> None:
    _prepare_plotly(sys.modules.get("plotly.io", types.SimpleNamespace()))


def _prepare_bokeh(showing: Any) -> None:
    def show_bokeh(model: Any, *_: Any, **__: Any) -> None:
        publish(_write_bokeh(model))

    showing.show = show_bokeh


def _write_bokeh(model: Any) -> dict[str, Any]:
    library = importlib.import_module("bokeh.io")
    title = f"cell {RUN.cell}"
    resources = importlib.import_module("bokeh.resources").INLINE
    return _page(lambda path: library.save(model, path, resources=resources, title=title))


def _prepare_bokeh_output(output: Any) -> None:
    output.output_notebook = lambda *_, **__: None


def _prepare_altair(module: Any) -> None:
    def show_altair(chart: Any, *_: Any, **__: Any) -> None:
        publish(rich_forms(chart))

    for name in ("show", "display"):
        if hasattr(module.TopLevelMixin, name):
            setattr(module.TopLevelMixin, name, show_altair)


def _from(module: str, method: str) -> Any:
    def test(value: Any) -> bool:
        kinds = type(value).__mro__
        return hasattr(value, method) and any(
            kind.__module__.split(".")[0] == module for kind in kinds
        )

    return test


def _write_altair(chart: Any) -> dict[str, Any]:
    return dict(_page(lambda path: chart.save(path)), **{"text/plain": repr(chart)})


SPECIAL.append((_from("plotly", "write_html"), _write_plotly))
SPECIAL.append((_from("altair", "to_html"), _write_altair))


def _prepare_pillow(viewers: Any) -> None:
    def show_image(image: Any, *_: Any, **__: Any) -> bool:
        forms = rich_forms(image)
        forms.pop("text/plain", None)
        publish(forms)
        return True

    viewers.show = show_image


def prepare_figures() -> None:
    """Make every plotting library write files from the moment it is imported."""
    os.environ["MPLBACKEND"] = "Agg"  # for programs that the notebook starts
    os.environ.pop("DISPLAY", None)
    after_import("matplotlib", _prepare_matplotlib)
    after_import("plotly.io", _prepare_plotly)
    after_import("plotly.offline", _prepare_plotly_offline)
    after_import("bokeh.io.showing", _prepare_bokeh)
    after_import("bokeh.io.output", _prepare_bokeh_output)
    after_import("altair", _prepare_altair)
    after_import("PIL.ImageShow", _prepare_pillow)
