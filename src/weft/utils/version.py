"""The version of weft, which bundles and exports record."""

__version__ = "0.1.0"
