"""Pictures as inline SVG: axes, line charts, scatter plots, bars, heat maps, stacked areas, intervals.

Every color is a class of the style sheet (`reporting/assets/picture.css`), so that a picture follows the
page's theme, and a picture in a file of its own follows that of the browser.
"""
