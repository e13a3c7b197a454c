"""`python -m familiar_cli`, the same as `familiar`."""

from familiar_cli.cli import main

if __name__ == "__main__":
    main()
