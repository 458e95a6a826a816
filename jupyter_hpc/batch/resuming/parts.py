"""What a training has to save: models, optimizers, schedulers, scalers, found by their making."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from jupyter_hpc.batch.resuming.loops import EpochLoop, NotSure
from jupyter_hpc.batch.resuming.program import Program, Scope, argument, last_name, root, stored

Kind = Literal["optimizer", "scheduler", "scaler", "loader", "other"]

_OPTIM = "torch.optim."
_SCHEDULERS = "torch.optim.lr_scheduler."
_SCALERS = frozenset(
    {"torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"}
)
_LOADERS = frozenset(
    {
        *("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"),
        "torchdata.stateful_dataloader.StatefulDataLoader",
    }
)
#: Arguments of Run, which no part can be called.
RESERVED = frozenset({"every", "loader", "folder", "best", "keep", "each_epoch", "self"})
#: Calls after which another process takes part.
_DISTRIBUTED = frozenset({"init_process_group", "DistributedDataParallel", "fully_shard"})


def kind_of(program: Program, call: ast.expr | None) -> Kind:
    """What a value is, by the name of what makes it."""
    if not isinstance(call, ast.Call):
        return "other"
    name = program.full_name(call.func)
    if name.startswith((_SCHEDULERS, "transformers.get_")):
        return "scheduler"
    if name.startswith(_OPTIM) and "swa_utils" not in name:
        return "optimizer"
    if name in _SCALERS:
        return "scaler"
    return "loader" if name in _LOADERS else "other"


class Parts:
    """The parts of one training, by their names in the scope of its loop."""

    def __init__(self, program: Program, loop: EpochLoop) -> None:
        self._program, self._loop = program, loop
        self.names: list[str] = []
        self._find()

    def _find(self) -> None:
        program, loop = self._program, self._loop
        called = program.called_functions(loop.node.body)
        text = [node for scope in (program.top, *program.functions.values()) for node in scope.body]
        if any(
            isinstance(each, ast.Call) and last_name(each.func) in _DISTRIBUTED
            for node in text
            for each in ast.walk(node)
        ):
            raise NotSure("It trains in several processes; each needs `distributed()` around it.")
        stepped: dict[str, Kind] = {}
        for scope, body in ((loop.scope, loop.node.body), *((each, each.body) for each in called)):
            for call in _calls_of("step", body):
                name = self._in_loop(scope, root(call.func.value))  # type: ignore[attr-defined]
                kinds = {kind for _, kind in self._made(loop.scope, name)} if name else set()
                if len(kinds) != 1 or not kinds & {"optimizer", "scheduler", "scaler"}:
                    shown = ast.unparse(call.func)
                    cell = program.cell(call).number
                    raise NotSure(f"It is not seen what `{shown}()` of cell {cell} belongs to.")
                stepped[name] = kinds.pop()
                if stepped[name] == "scaler" and call.args:
                    stepped[self._in_loop(scope, root(call.args[0]))] = "optimizer"
        optimizers = [name for name, kind in stepped.items() if kind == "optimizer"]
        if not optimizers or "" in stepped:
            raise NotSure("No optimizer of torch.optim is seen to take its steps.")
        models = [model for name in optimizers for model in self._models(name)]
        rest = [name for name, kind in stepped.items() if kind != "optimizer"]
        self.names = list(dict.fromkeys([*models, *optimizers, *rest]))
        self._check(called)

    def _check(self, called: list[Scope]) -> None:
        loop = self._loop
        for name in self.names:
            if name in RESERVED:
                raise NotSure(f"`{name}` cannot be the name of a part of Run.")
        inside = {name for node in loop.node.body for each in ast.walk(node)
                  for name, _ in stored(each)}  # fmt: skip
        made = sorted(inside & set(self.names))
        if made:
            raise NotSure(f"`{made[0]}` is made anew in the loop.")
        for scope, body in ((loop.scope, loop.node.body), *((each, each.body) for each in called)):
            for call in _calls_of("load_state_dict", body):
                name = self._in_loop(scope, root(call.func.value))  # type: ignore[attr-defined]
                if name not in self.names:
                    shown = ast.unparse(call.func)
                    raise NotSure(f"`{shown}()` changes something in the loop that is not seen.")

    def _in_loop(self, scope: Scope, name: str) -> str:
        """The name that something has in the scope of the loop; empty if it has none."""
        loop, program = self._loop.scope, self._program
        seen: set[str] = set()
        while scope is not loop and name in scope.parameters and scope.function is not None:
            function = scope.function
            if function.name in seen:
                return ""
            seen.add(function.name)
            calls = program.calls(function.name)
            given = {root(value) if isinstance(value := argument(call, function, name), ast.Name)
                     else "" for call in calls}  # fmt: skip
            if len(given) != 1:
                return ""
            name = given.pop()
            callers = {id(found): found for call in calls for found in [self._scope_of(call)]}
            if len(callers) != 1:
                return ""
            scope = next(iter(callers.values()))
        if scope is not loop and (name in scope.values or name in loop.parameters):
            return ""  # made inside of a function, or hidden by another of that name
        return name

    def _scope_of(self, call: ast.Call) -> Scope:
        for scope in self._program.functions.values():
            if any(node is call for each in scope.body for node in ast.walk(each)):
                return scope
        return self._program.top

    def _made(self, scope: Scope, name: str) -> list[tuple[Scope, Kind]]:
        """Where a name of a scope gets its values, and what they are."""
        return [(found, kind_of(self._program, value)) for found, value in self.values(scope, name)]

    def values(self, scope: Scope, name: str) -> Iterator[tuple[Scope, ast.expr | None]]:
        """The values of a name; those of a parameter are what the calls give for it."""
        if name in scope.parameters and scope.function is not None:
            for call in self._program.calls(scope.function.name):
                value = argument(call, scope.function, name)
                if isinstance(value, ast.Name):
                    yield from self.values(self._scope_of(call), value.id)
                else:
                    yield scope, value
        elif name in scope.values:
            for value in scope.values[name]:
                yield scope, value
        elif scope is not self._program.top:
            yield from self.values(self._program.top, name)

    def is_loader(self, name: str) -> bool:
        """Whether a name of the loop's scope is a DataLoader and nothing else."""
        return {kind for _, kind in self._made(self._loop.scope, name)} == {"loader"}

    def loaders_have_generators(self) -> bool:
        """Whether a loader draws its order from a generator, which only run.batches() saves."""
        loaders = (
            each
            for cell in self._program.cells
            for each in ast.walk(cell.code.tree)
            if kind_of(self._program, each if isinstance(each, ast.Call) else None) == "loader"
        )
        return any(key.arg in ("generator", "sampler", "batch_sampler", None)
                   for call in loaders for key in call.keywords)  # type: ignore[attr-defined]  # fmt: skip

    def _models(self, optimizer: str) -> Iterator[str]:
        for scope, value in self.values(self._loop.scope, optimizer):
            if not isinstance(value, ast.Call):
                continue  # kind_of has looked
            owners = list(self._owners(scope, [*value.args, *(k.value for k in value.keywords)]))
            if not owners:
                raise NotSure(f"It is not seen which model `{optimizer}` changes.")
            for owner in owners:
                name = self._outward(scope, owner)
                if not name:
                    raise NotSure(f"It is not seen which model `{optimizer}` changes.")
                yield name

    def _owners(self, scope: Scope, nodes: list[ast.expr], depth: int = 0) -> Iterator[str]:
        """The names before `.parameters()`, also of a list that was made before."""
        for node in nodes:
            for each in ast.walk(node):
                if isinstance(each, ast.Call) and last_name(each.func) in (
                    "parameters",
                    "named_parameters",
                ):
                    yield root(each.func)
            if isinstance(node, ast.Name) and depth < 2:
                for found, value in self.values(scope, node.id):
                    if value is not None:
                        yield from self._owners(found, [value], depth + 1)

    def _outward(self, scope: Scope, name: str) -> str:
        """The name in the loop's scope of a model that an optimizer was made with in `scope`."""
        loop = self._loop.scope
        if scope is loop:
            return name if loop.knows(name) or self._program.top.knows(name) else ""
        if scope is not self._program.top:
            return ""
        if loop.function is not None:
            for parameter in loop.parameters:
                for call in self._program.calls(loop.function.name):
                    value = argument(call, loop.function, parameter)
                    if isinstance(value, ast.Name) and value.id == name:
                        return parameter
        hidden = loop.function is not None and loop.knows(name)
        return "" if hidden or not self._program.top.knows(name) else name


def _calls_of(method: str, body: list[ast.stmt]) -> Iterator[ast.Call]:
    for node in body:
        for each in ast.walk(node):
            if (
                isinstance(each, ast.Call)
                and isinstance(each.func, ast.Attribute)
                and each.func.attr == method
            ):
                yield each
