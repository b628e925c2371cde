"""Speed measurements of weft and its peers in the same run: `python -m benchmarks.speed`."""
