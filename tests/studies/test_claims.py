"""Claims in the report: one table and a headline."""

from markupsafe import Markup

from headwise.studies.claims import Claim, claims_sections
from headwise.studies.tables import Figure, StudyTable, section_of
from tests.report.reading import Element, read

TEST = "paired bootstrap"


def cells(body: Markup) -> list[list[Element]]:
    return [row.children for row in read(body).all("tbody")[0].children]


def test_claims_are_one_table_and_the_first_is_the_headline() -> None:
    claims = (
        Claim("Pruning helps.", "no", "-1.20, 95% interval -2.00 to -0.40", TEST),
        Claim("Tuning helps.", "yes", "+0.00, P = 0.010", TEST),
    )
    [section] = claims_sections(claims, "the paper", "Be careful.")
    assert section.headline == (
        "This does not hold here: “Pruning helps” (−1.20, 95% interval −2.00 to −0.40). Claims of the paper: 1 of 2 "
        "hold, 1 of 2 do not hold."
    )
    page = read(section.body)
    assert [title.text for title in page.all("thead")[0].all("th")] == ["claim of the paper", "holds here", "evidence"]
    assert [[cell.text for cell in row] for row in cells(section.body)] == [
        ["Pruning helps", "no", "−1.20, 95% interval −2.00 to −0.40"],
        ["Tuning helps", "yes", "0.00, P\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0.010"],
    ]
    assert not page.all(class_="number"), "words are aligned as words"
    assert page.all(class_="legend")[0].text == (
        "Test: paired bootstrap. Each test has its own error rate of 5%. Be careful."
    )


def test_different_tests_and_papers_have_columns() -> None:
    claims = (Claim("A", "undecided", "1", TEST, "yes"), Claim("B", "undecided", "2", "permutation test"))
    [section] = claims_sections(claims, "the paper")
    titles = [title.text for title in read(section.body).all("thead")[0].all("th")]
    assert titles == ["claim of the paper", "holds here", "evidence", "test", "paper"]
    assert section.headline == "Undecided: “A” (1). All 2 claims of the paper are undecided."


def test_without_claims_there_is_no_section() -> None:
    assert claims_sections((), "the paper") == ()


def test_a_table_of_the_report_has_names_of_languages_minus_signs_and_marks() -> None:
    rows = (
        ("zh", "stars", Figure(-1.25, difference=-1.25, p_value=0.001, signed=True), 3),
        ("mean", "", Figure(0.0, signed=True), 4),
    )
    table = StudyTable("gains", "gains", ("language", "ranking", "gain", "heads"), rows, "- worse")
    first, second = cells(section_of(table).body)
    assert [cell.text for cell in first] == ["Chinese zh", "stars", "−1.25−", "3"]
    assert [cell.text for cell in second] == ["mean", "", "0.00", "4"]
    assert [cell.attributes.get("class") for cell in first] == [None, None, "number", "number"]
    [mark] = first[2].all(class_="sign")
    assert mark.attributes["title"] == "significantly worse"
    assert read(section_of(table).body).all(class_="legend")[0].text == "− worse"
