"""`jupyter-hpc setup`: the environment on a cluster, made, checked, exported, removed."""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from jupyter_hpc.cli.hosts import open_cluster
from jupyter_hpc.cli.short_job import end_with_signals, wait_option
from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.user_file import by_hand, remember
from jupyter_hpc.connect.job.request import find_profile
from jupyter_hpc.connect.job.short_job import JobNeverRan
from jupyter_hpc.connect.job.survey import shell_facts
from jupyter_hpc.connect.setup.building import Builder, Found
from jupyter_hpc.connect.setup.recipe import STYLES, Recipe, Wishes, recipe_for
from jupyter_hpc.errors import HpcError, ProfileError, UsageError
from jupyter_hpc.text import printable


@click.command()
@click.argument("name")
@click.option(
    "--style", type=click.Choice(STYLES), help="How it is made; else as the profile says."
)
@click.option("--module", "modules", multiple=True, help="Module to load first; may be repeated.")
@click.option("--python", default="", help="Python to build on, as a command or path there.")
@click.option(
    "--wheels",
    default="",
    help="Folder of wheels there, not the Internet.",
)
@click.option("--prefix", default="", help="Folder there; default: ~/.local/share/jupyter-hpc/env.")
@click.option("--package", "packages", multiple=True, help="Further package; may be repeated.")
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="environment.yml, requirements.txt, or what --export has written.",
)
@click.option("--no-job", is_flag=True, help="Do not start it once inside a short job.")
@wait_option
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be run.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write all packages with their versions to a file, and do nothing else.",
)
@click.option("--remove", is_flag=True, help="Delete the environment and what belongs to it.")
def setup(
    name: str,
    style: str | None,
    modules: tuple[str, ...],
    python: str,
    wheels: str,
    prefix: str,
    packages: tuple[str, ...],
    file: Path | None,
    no_job: bool,
    wait: float,
    dry_run: bool,
    export: Path | None,
    remove: bool,
) -> int:
    """Make the environment that sessions on the cluster NAME need.

    Builds it on the login host with JupyterLab and jupyter-hpc, registers a kernel, starts it
    once inside a short job, and writes to your profile how it is entered. The build goes on if
    the connection is lost; run the same command again to follow it.
    """
    if export is not None and remove:
        raise UsageError("--export and --remove exclude each other.", "Export first.")
    profile, _ = find_profile(name)
    profile.check_usable()
    wishes = Wishes(style or "", python, wheels, prefix, modules, packages, file)
    recipe_for(profile, wishes)  # what is wrong is said before a login
    plan = _Plan(None if no_job else wait, dry_run, export, remove)
    return asyncio.run(_until_signal(profile, wishes, plan))


@dataclass(frozen=True)
class _Plan:
    """What is to be done; `wait` for a job in seconds, None without one."""

    wait: float | None
    dry: bool
    export: Path | None
    remove: bool


async def _until_signal(profile: Profile, wishes: Wishes, plan: _Plan) -> int:
    shown = _Shown()
    work = asyncio.ensure_future(_setup(profile, wishes, plan, shown))
    caught = end_with_signals(work, shown.clear)
    try:
        await work
    except asyncio.CancelledError:
        if not caught:
            raise
        shown.interrupted(profile.name)
        return 128 + caught[0]
    return 0


async def _setup(profile: Profile, wishes: Wishes, plan: _Plan, shown: _Shown) -> None:
    async with open_cluster(profile) as runner:
        has_uv = "uv" in (await shell_facts(runner, modules=False)).programs
        recipe = recipe_for(profile, wishes, has_uv=has_uv)
        builder = Builder(runner, profile, recipe, shown.tell, shown.line)
        found = await builder.look(make=not (plan.dry or plan.remove or plan.export))
        if plan.export is not None:
            text = await builder.lock(found)
            _write_lock(plan.export, text)
        elif plan.remove:
            await _remove(builder, profile, found, recipe, plan.dry)
        elif plan.dry:
            _show_plan(recipe, found, plan.wait)
        else:
            await _build(builder, profile, found, recipe, plan.wait, shown)


def _write_lock(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}.", "") from error
    click.echo(f"{len(text.splitlines())} lines in {file}; build from it with -f {file}.")


async def _build(
    builder: Builder,
    profile: Profile,
    found: Found,
    recipe: Recipe,
    wait: float | None,
    shown: _Shown,
) -> None:
    shown.building = True
    fresh = await builder.build(found)
    shown.building = False
    shown.clear()
    if not fresh:
        click.echo(f"{found.prefix} is there already, as asked for.")
    answers = dict(recipe.profile_lines(found.prefix))
    entered = tuple(answers["environment.setup"])
    if fresh or profile.environment.setup != entered:
        if wait is None:
            click.echo("It was not started on a node, as asked.")
        else:
            try:
                await builder.check(fresh or found.current, wait)
            except JobNeverRan as error:
                click.echo(printable(f"It was not started on a node: {error}"), err=True)
    if fresh:
        await builder.switch(found, fresh)
        click.echo(f"{found.prefix} is now {fresh}.")
    old = (*found.old, found.current) if fresh and found.current else found.old
    if old:
        swept = await builder.sweep(found, old)
        for env in swept.removed:
            click.echo(f"Removed: {env}, which was in use before.")
        for env in swept.kept:
            click.echo(f"{env} stays: {swept.why}. A later setup removes it.")
    if (
        profile.environment.setup == entered
        and list(profile.environment.modules) == answers["environment.modules"]
    ):
        click.echo("The profile enters it already.")
    else:
        if profile.environment.setup:
            before = "; ".join(profile.environment.setup)
            click.echo(printable(f"The profile's lines before were: {before}"), err=True)
        if not (recipe.modules or profile.environment.modules):
            del answers["environment.modules"]
        path = remember(profile.name, answers, replace=True)
        click.echo(f"Written to {path}: {by_hand(answers).removeprefix('Write there: ')}")
    click.echo(f"Next: jupyter-hpc connect {profile.name}")


async def _remove(
    builder: Builder, profile: Profile, found: Found, recipe: Recipe, dry: bool
) -> None:
    entered = tuple(recipe.profile_lines(found.prefix)["environment.setup"])
    if dry:
        click.echo(f"Would be removed: {found.prefix}, the kernel {recipe.kernel}, {found.work}.")
        return
    gone = await builder.remove(found)
    for path in gone:
        click.echo(printable(f"Removed: {path}"))
    if not gone:
        click.echo(f"Nothing was set up for {profile.name}.")
    if profile.environment.setup == entered:
        try:
            nothing: dict[str, list[str]] = {"environment.setup": [], "environment.modules": []}
            file = remember(profile.name, nothing, replace=True)
            click.echo(f"The profile enters it no more: {file}")
        except ProfileError as error:
            raise HpcError(error.message, error.hint) from error


def _show_plan(recipe: Recipe, found: Found, wait: float | None) -> None:
    arguments = recipe.arguments(found.work, found.prefix, "KEY", ["jupyter-hpc[lab]"])
    click.echo("Would be run on the login host, detached:")
    click.echo(printable(f"  bash -l {found.work}/build.sh {shlex.join(arguments)}"))
    click.echo(f"  style {recipe.style}, packages from {recipe.wheels or 'the Internet'}")
    if wait is not None:
        click.echo("Then one job of minutes, which is given back as soon as it has answered.")
    lines = by_hand(recipe.profile_lines(found.prefix)).removeprefix("Write there: ")
    click.echo(f"Then into the profile: {lines}")


class _Shown:
    """Steps as lines; the build's own last line moves on a terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self.building = False

    def tell(self, text: str) -> None:
        self.clear()
        click.echo(text)

    def line(self, text: str) -> None:
        if self._live:
            click.echo(f"\r\x1b[K  {text[:100]}", nl=False, err=True)

    def clear(self) -> None:
        if self._live:
            click.echo("\r\x1b[K", nl=False, err=True)

    def interrupted(self, name: str) -> None:
        """What goes on there, and what does not."""
        self.clear()
        words = "Interrupted; the same command goes on from here."
        if self.building:
            words = (
                "Interrupted here; a build that has begun there goes on. To follow it, the same "
                f"command again. To end it: jupyter-hpc setup {name} --remove"
            )
        click.echo(words, err=True)
