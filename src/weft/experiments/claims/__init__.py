"""Claims: sentences that the results of a grid hold up, refute, or leave undecided.

```yaml
claims:
  - {text: low-rank layers are as good as PALs, test: average(low_rank) >= average(pals) margin 0.5}
```

`language` parses the test, `functions` lists what a test can call, `evaluate` compares it with results.
"""

from weft.experiments.claims.checks import check_claim, check_claims
from weft.experiments.claims.data import ClaimData, Interval, Term
from weft.experiments.claims.evaluate import ClaimResult, all_held, evaluate_claim, evaluate_claims
from weft.experiments.claims.language import ParsedClaim, parse_claim
from weft.experiments.claims.of_records import claim_results, claim_sums

__all__ = [
    "ClaimData",
    "ClaimResult",
    "Interval",
    "ParsedClaim",
    "Term",
    "all_held",
    "check_claim",
    "check_claims",
    "claim_results",
    "claim_sums",
    "evaluate_claim",
    "evaluate_claims",
    "parse_claim",
]
