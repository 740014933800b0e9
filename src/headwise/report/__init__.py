"""Reports: a single HTML file that opens from disk and needs no network."""

from headwise.report.contents import SIGNIFICANT, Curve, Gain, LanguageCost, MaskGains, Report, Section, noun_of
from headwise.report.curves import curves_section
from headwise.report.gains import gains_section
from headwise.report.page import write_report
from headwise.report.scatter import Cloud, scatter_section
from headwise.report.tables import masks_section, table_section

__all__ = [
    "SIGNIFICANT",
    "Cloud",
    "Curve",
    "Gain",
    "LanguageCost",
    "MaskGains",
    "Report",
    "Section",
    "curves_section",
    "gains_section",
    "masks_section",
    "noun_of",
    "scatter_section",
    "table_section",
    "write_report",
]
