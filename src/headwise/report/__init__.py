"""One page that shows what was found: a single HTML file that opens from disk and needs no network."""

from headwise.report.contents import Cost, Curve, Gain, Report, noun_of
from headwise.report.page import write_report

__all__ = ["Cost", "Curve", "Gain", "Report", "noun_of", "write_report"]
