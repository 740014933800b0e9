"""`headwise`: the entry point, which prints errors as one line."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> None:
    """Run the command line. The exit code is 0 for success, 1 for an error, 2 for wrong usage, 130 for Ctrl-C."""
    try:
        _run()
    except KeyboardInterrupt:  # for example, while libraries are being imported
        print("headwise: stopped", file=sys.stderr)
        sys.exit(130)


def _run() -> None:
    try:
        from headwise.cli.commands import app
    except ModuleNotFoundError as error:
        sys.exit(f"headwise: the command line needs {error.name}: pip install 'headwise[cli,offline]'")
    from headwise.cli.quiet import quiet_libraries
    from headwise.errors import FieldError, HeadwiseError

    quiet_libraries()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # so that a write error, such as a full disk, is reported below
    except FieldError as error:
        _fail(f"{_option(error.field)}: {error.reason}")
    except HeadwiseError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        _fail(f"{error.filename or 'the output'}: cannot be read or written: {error.strerror or error}")


def _fail(message: str) -> NoReturn:
    """Print an error as one line, also if it names a file with a line break in its name."""
    sys.exit("headwise: " + " ".join(message.splitlines()))


def _option(field: str) -> str:
    """The command-line option of a field; for studies the field of the plan."""
    return field if sys.argv[1:2] in (["study"], ["demo"]) else f"--{field.replace('_', '-')}"


def _drop_output() -> None:
    """Discard buffered output: otherwise Python tries to write it again at exit and prints another error."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
