"""`python -m graphmp` is the `graphmp` command."""

from graphmp.cli.main import main

if __name__ == "__main__":
    main()
