"""Reports: a single HTML file that opens from disk and needs no network."""

from headwise.report.contents import SIGNIFICANT, Curve, Gain, Report, ScoringCost, Section, noun_of
from headwise.report.curves import curves_section
from headwise.report.gains import GainsText, gains_section
from headwise.report.page import write_report
from headwise.report.scatter import Cloud, scatter_section
from headwise.report.tables import table_section

__all__ = [
    "SIGNIFICANT",
    "Cloud",
    "Curve",
    "Gain",
    "GainsText",
    "Report",
    "ScoringCost",
    "Section",
    "curves_section",
    "gains_section",
    "noun_of",
    "scatter_section",
    "table_section",
    "write_report",
]
