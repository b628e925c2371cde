"""`python -m weft`, as launchers call it: `torchrun --nproc-per-node 2 -m weft train RUN.yaml`."""

from weft.cli import main

main()
