"""`python -m quipu` is the `quipu` command."""

from quipu.cli import main

if __name__ == "__main__":
    main()
