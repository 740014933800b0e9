"""`headwise`: the entry point and its one way of failing."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line: 0 when it went well, 1 when it failed, 2 when it was called wrongly."""
    try:
        _run()
    except KeyboardInterrupt:  # also while the libraries are still loading
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
            sys.stdout.flush()  # here, where a full disk can still be said
    except FieldError as error:
        sys.exit(f"headwise: {_option(error.field)}: {error.reason}")
    except HeadwiseError as error:
        sys.exit(f"headwise: {error}")
    except BrokenPipeError:  # whoever read the output has had enough
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        sys.exit(f"headwise: {error.filename or 'the output'}: cannot be read or written: {error.strerror or error}")


def _option(field: str) -> str:
    """The option that gives a field; the fields of studies are in their plans."""
    return field if sys.argv[1:2] in (["study"], ["demo"]) else f"--{field.replace('_', '-')}"


def _drop_output() -> None:
    """Let what is left in the buffer go: Python would try once more to write it, and complain."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
