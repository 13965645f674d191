"""The commands that list what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def methods() -> None:
    """List the methods with their references."""
    from rich.table import Table

    from josrc._console import Terminal
    from josrc.errors import UserError
    from josrc.methods import get_method, method_names

    table = Table("key", "method", "reference", box=None, pad_edge=False)
    for key in method_names():
        try:
            method = get_method(key)
        except UserError as error:  # somebody else's
            table.add_row(key, "can't be loaded", str(error))
        else:
            table.add_row(key, method.title, method.reference)
    Terminal().print(table)


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this recipe.")] = None,
) -> None:
    """List the recipes, or show one."""
    from josrc.config import OWN_IMAGES
    from josrc.runs.resolve import OWN_IMAGES_TEXT, recipe_names, recipe_text

    if name is not None:
        typer.echo(OWN_IMAGES_TEXT if name == OWN_IMAGES else recipe_text(name), nl=False)
        return
    for recipe in recipe_names():
        typer.echo(f"{recipe:20} {recipe_text(recipe).splitlines()[0].removeprefix('# ')}")


@app.command()
def settings(
    method: Annotated[str, typer.Argument(help="With the settings of this method.")] = "josrc",
) -> None:
    """List every configuration key with its default and meaning."""
    from rich.table import Table

    from josrc._console import Terminal
    from josrc.cli._settings import settings_of

    table = Table("key", "default", "meaning", box=None, pad_edge=False)
    for setting in settings_of(method):
        table.add_row(setting.key, setting.default, setting.meaning)
    Terminal().print(table)
