"""The entry point of `python -m weft`, as in `torchrun --nproc-per-node 2 -m weft train RUN.yaml`."""

from weft.cli import main

main()
