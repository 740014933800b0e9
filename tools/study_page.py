"""Markdown of finished studies, for the pages of results: `python -m tools.study_page RUN … [--plots docs/results]`.

Each run becomes a section with its command, its tables and, with `--plots`, its plots, which are copied into that
folder as SVG. The text around the sections is written by hand.
"""

import argparse
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from headwise.errors import HeadwiseError
from headwise.studies.page import load_study
from headwise.studies.study import Study
from headwise.studies.tables import StudyTable, as_markdown

#: The name of the table of claims.
CLAIMS = "claims"


def section(study: Study, title: str, command: str, plots: Path | None) -> str:
    """The section of one study.

    Args:
        study: The study.
        title: Its heading.
        command: The command that ran it.
        plots: The folder to copy its plots to; None for no plots.
    """
    parts = [f"## {title}", f"```sh\n{command}\n```"]
    parts += [_table(table) for table in study.tables() if table.printed]
    parts += [f"- {note}" for note in study.notes]
    if plots is not None:
        parts += [f"![{name}]({file})" for name, file in _copied(study.folder, plots)]
    return "\n\n".join(parts)


def _table(table: StudyTable) -> str:
    title = f"**{table.title[:1].upper()}{table.title[1:]}**"
    note = "" if table.name == CLAIMS else table.note  # the paragraph repeats the table
    return "\n\n".join(filter(None, (title, as_markdown(table).strip(), note)))


def _copied(folder: Path, plots: Path) -> Iterator[tuple[str, str]]:
    """The titles and the new names of the plots of a run."""
    for file in sorted(folder.glob("*.svg")):
        name = f"{folder.name}-{file.name}"
        shutil.copy(file, plots / name)
        yield file.stem.replace("-", " "), name


def main() -> None:
    """Print the sections of the given runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders of finished studies")
    parser.add_argument("--commands", nargs="*", default=[], help="the command of each run")
    parser.add_argument("--titles", nargs="*", default=[], help="the heading of each run; default: its name")
    parser.add_argument("--plots", type=Path, help="folder for the plots")
    options = parser.parse_args()
    try:
        for place, run in enumerate(options.runs):
            title = options.titles[place] if place < len(options.titles) else run.name
            default = shlex.join(["headwise", "study", run.name, "--set", "size=small"])
            command = options.commands[place] if place < len(options.commands) else default
            print(section(load_study(run), title, command, options.plots), end="\n\n")
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
