"""Pages and pictures one can look at: `weft report`, `weft show curves` and `weft show composition`.

A page is one HTML file with its pictures, styles and script inside. It needs no network, and no torch is
imported to make it.
"""
