"""`python -m benchmarks.paper.claims`: write docs/results/claims.md."""

from benchmarks.paper.claims.page import main

main()
