"""`python -m pdqat`."""

from pdqat.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
