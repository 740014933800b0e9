"""`python -m headwise` is the command line."""

from headwise.cli.main import main

if __name__ == "__main__":
    main()
