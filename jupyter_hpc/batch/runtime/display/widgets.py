"""ipywidgets without a browser: controls keep their first value, functions run once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jupyter_hpc.batch.runtime.display.display import display
from jupyter_hpc.batch.runtime.log import log


def _first_value(given: Any) -> Any:
    """The value that a control has before anybody touches it."""
    if isinstance(given, Widget) or _is_real(given):
        return given.value
    if isinstance(given, (bool, int, float, str)):
        return given
    if isinstance(given, tuple) and given and all(isinstance(i, (int, float)) for i in given):
        return _middle(*(given if len(given) > 1 else given * 2))
    if isinstance(given, dict) and given:
        return next(iter(given.values()))
    if isinstance(given, (list, tuple)) and given:
        first = given[0]
        return first[1] if isinstance(first, tuple) and len(first) == 2 else first
    return given


def _is_real(given: Any) -> bool:
    """Whether it is a control of ipywidgets itself, made by a module of the notebook's."""
    kinds = type(given).__mro__
    return hasattr(given, "value") and any(
        kind.__module__.split(".")[0] == "ipywidgets" for kind in kinds
    )


def _middle(low: Any, high: Any, step: Any = None, *_: Any) -> Any:
    """Where a slider between two numbers stands at first: in the middle, on a step."""
    whole = isinstance(high - low, int)
    value = low + ((high - low) // 2 if whole else (high - low) / 2)
    return low + int((value - low) / step) * step if step else value


class Widget:
    """Any control: it remembers what it was made with and never changes by itself."""

    default: Any = None

    def __init__(self, *children: Any, **options: Any) -> None:
        self.children = children[0] if len(children) == 1 else children
        vars(self).update(options)
        if "value" not in options and not hasattr(type(self), "value"):
            self.value = options.get("min", self._options_value(options, self.default))

    @staticmethod
    def _options_value(options: dict[str, Any], default: Any) -> Any:
        choices = options.get("options")
        return _first_value(choices if isinstance(choices, dict) else list(choices or [default]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return None

    def observe(self, *_: Any, **__: Any) -> None:
        """Nobody changes a control in a batch job."""

    on_click = on_submit = unobserve = unlink = close = clear_output = observe

    def __enter__(self) -> Widget:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def _ipython_display_(self) -> None:
        log(f"a control ({type(self).__name__}) is not shown in a batch job")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r})"


class fixed(Widget):
    def __init__(self, value: Any, **_: Any) -> None:
        super().__init__(value=value)


def _call_once(function: Callable[..., Any], controls: dict[str, Any]) -> Any:
    values = {name: _first_value(given) for name, given in controls.items()}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function(**values)
    for name, parameter in signature.parameters.items():
        if name not in values and parameter.default is not inspect.Parameter.empty:
            values[name] = _first_value(parameter.default)
    log("{} runs once, with {}".format(getattr(function, "__name__", "a function"), values))
    return function(**values)


class _Interact:
    """`interact`, as a call and as a decorator."""

    def __call__(self, function: Callable[..., Any] | None = None, **controls: Any) -> Any:
        if function is None:
            return lambda chosen: self(chosen, **controls)
        result = _call_once(function, controls)
        if result is not None:
            display(result)
        return function

    def options(self, **_: Any) -> _Interact:
        """Options of the controls make no difference here."""
        return self


interact = _Interact()
interact_manual = _Interact()


def interactive(function: Callable[..., Any], *_: Any, **controls: Any) -> Widget:
    """Run the function once; the result stands for the row of controls."""
    controls.pop("__manual", None)
    result = _call_once(function, controls)
    children: list[Widget] = [Widget(value=_first_value(given)) for given in controls.values()]
    return Widget(children, value=None, result=result)


def interactive_output(function: Callable[..., Any], controls: dict[str, Any]) -> Widget:
    """The same for controls that were made before."""
    return Widget(value=None, result=_call_once(function, controls))


_DEFAULTS = {"Int": 0, "Float": 0.0, "Text": "", "Check": False, "Toggle": False, "HTML": ""}


def widget_kind(name: str) -> Any:
    """The class of that name in ipywidgets, whatever it is."""
    default = next((value for start, value in _DEFAULTS.items() if name.startswith(start)), None)
    return type(name, (Widget,), {"default": default})


class _Widgets:
    """Stands for the module ipywidgets."""

    interact, interact_manual = interact, interact_manual
    interactive, interactive_output = staticmethod(interactive), staticmethod(interactive_output)
    fixed, Widget = fixed, Widget

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("widgets", "interaction", "embed"):
            return self
        if name in ("link", "jslink", "dlink", "jsdlink", "register"):
            return lambda *_, **__: Widget()
        kind = widget_kind(name)
        setattr(self, name, kind)
        return kind


widgets = _Widgets()
