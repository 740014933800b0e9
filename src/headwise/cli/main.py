"""`headwise`: the entry point and its one way of failing."""

import sys


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
    from headwise.errors import HeadwiseError

    try:
        app()
    except HeadwiseError as error:
        sys.exit(f"headwise: {error}")
