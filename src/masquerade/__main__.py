"""`python -m masquerade` is `masquerade`."""

from masquerade.cli import main

if __name__ == "__main__":
    main()
