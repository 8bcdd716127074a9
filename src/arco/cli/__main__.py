"""`python -m arco.cli`: the same as `arco`, for where the script is not on the path."""

from arco.cli import main

main()
