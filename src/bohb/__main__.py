"""`python -m bohb`: the command line."""

from bohb.cli import main

if __name__ == "__main__":
    main(prog_name="bohb")
