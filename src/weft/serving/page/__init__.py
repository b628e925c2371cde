"""The files of the web page."""
