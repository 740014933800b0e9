"""The study of correlates: correlation of gains with distances and rankings, without running a model."""

import csv
import itertools
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from headwise import HeadwiseError
from headwise.scores import HeadScores
from headwise.stats import permutation_p_value
from headwise.studies import CorrelatesPlan, find_plan
from headwise.studies.correlates import CORRELATES, correlate
from headwise.studies.page import report_of
from headwise.studies.typology import iso_code, read_distances
from tests.cli.running import run
from tests.report.samples import scores_of
from tests.studies.targeted_folder import save_targeted

GAINS = {"de_pud": 0.1, "en": 9.0, "sw": 2.0, "tr": 0.5, "zh": 1.0}
#: Rank correlations with English: 1 − 6·Σd²/60 with Σd² of 0, 2, 18 and 20.
VALUES = {"de_pud": [1, 2, 3, 4], "en": [1, 2, 3, 4], "sw": [4, 3, 2, 1], "tr": [2, 1, 3, 4], "zh": [4, 2, 3, 1]}
LIKENESS = {"de_pud": 1.0, "sw": -1.0, "tr": 0.8, "zh": -0.8}
DISTANCES = {"deu": 0.3, "tur": 0.7, "swa": 0.9, "zho": 0.5}


def scores_by_language(values: Mapping[str, Sequence[float]]) -> dict[str, HeadScores]:
    found = {language: scores_of(each) for language, each in values.items()}
    return {name: replace(each, provenance=replace(each.provenance, language=name)) for name, each in found.items()}


@pytest.fixture
def gains(tmp_path: Path) -> str:
    return str(save_targeted(tmp_path / "targeted", GAINS, scores_by_language(VALUES)))


@pytest.fixture(autouse=True)
def no_uriel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "urielplus.urielplus", None)


@pytest.fixture
def uriel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake URIEL with two kinds of distances; the others are unknown, which the real one allows too."""

    class Fake:
        def new_distance(self, kind: str, languages: list[str]) -> np.float32:
            source, other = languages
            if source != "eng" or kind not in ("syntactic", "genetic") or other not in DISTANCES:
                raise ValueError("No shared features")
            return np.float32(DISTANCES[other] if kind == "syntactic" else 1.0)

    module = ModuleType("urielplus.urielplus")
    module.URIELPlus = Fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "urielplus", ModuleType("urielplus"))
    monkeypatch.setitem(sys.modules, "urielplus.urielplus", module)


def test_gains_correlate_with_ranking_likeness(gains: str, tmp_path: Path) -> None:
    study = CORRELATES.run(CorrelatesPlan(gains), tmp_path / "run")
    assert {name: row["ranking likeness"] for name, row in study.traits.items()} == pytest.approx(LIKENESS)
    [found] = study.correlates
    assert (found.trait, found.languages) == ("ranking likeness", 4)
    assert found.rho == pytest.approx(-1.0)
    assert found.p_value == pytest.approx(2 / 24, abs=0.01)
    assert any("install 'headwise[typology]'" in note for note in study.notes)
    assert study.notes[0] == "The languages are aligned."
    assert [gain.difference for gain in study.targeted.gains()] == pytest.approx(list(GAINS.values()))
    assert (study.metric, study.seconds["sw"]) == ("accuracy", 1.0)
    assert [section.title for section in study.sections()][-1] == "Gains"


@pytest.mark.usefixtures("uriel")
def test_gains_correlate_with_distances_of_uriel(gains: str, tmp_path: Path) -> None:
    study = CORRELATES.run(CorrelatesPlan(gains), tmp_path / "run")
    found = {each.trait: each for each in study.correlates}
    assert list(found) == [
        "ranking likeness", "syntactic", "genetic", "geographic", "phonological", "inventory", "featural",
    ]  # fmt: skip
    assert study.traits["de_pud"]["syntactic"] == pytest.approx(0.3)
    # Gains rank de, tr, zh, sw; distances de, zh, tr, sw: 1 − 6·2/60.
    assert found["syntactic"].rho == pytest.approx(0.8)
    assert (found["genetic"].languages, found["genetic"].rho) == (4, None)
    assert (found["phonological"].languages, found["phonological"].p_value) == (0, None)
    assert study.notes == ("The languages are aligned.",)
    assert CORRELATES.load(study.folder) == study


def test_distances_from_a_file(gains: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("language\tscript\tspeakers\nde\t0\t3\nsw\t0.2\t4\ntr\t0.1\t1\nzh\t0.9\t\n")
    study = CORRELATES.run(CorrelatesPlan(gains, typology=str(path)), tmp_path / "run")
    found = {each.trait: each for each in study.correlates}
    assert list(found) == ["ranking likeness", "script", "speakers"]
    assert found["script"].rho == pytest.approx(1 - 6 * 2 / 60)
    assert (found["speakers"].languages, found["speakers"].rho) == (3, None)
    best = found["ranking likeness"]
    assert [section.headline for section in study.sections() if section.headline] == [
        "The gain in accuracy by targeted masks correlates most with ranking likeness: Spearman’s ρ = −1.00 "
        f"(P = {best.p_value:.3f}, 4 languages). Of 2 traits, none correlates significantly."
    ]


def test_without_scores_of_the_source_only_distances_are_used(gains: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("language,near\nde_pud,1\nsw,2\ntr,3\nzh,4\nen,5\n")
    study = CORRELATES.run(CorrelatesPlan(gains, source="fr", typology=str(path)), tmp_path / "run")
    assert [(each.trait, each.languages) for each in study.correlates] == [("near", 5)]
    assert any("no scores of fr" in note for note in study.notes)
    with pytest.raises(HeadwiseError, match=r"'source': .* give a file with distances as 'typology'"):
        CORRELATES.run(CorrelatesPlan(gains, source="fr"), tmp_path / "other")


def test_gains_of_refined_masks(gains: str, tmp_path: Path) -> None:
    folder, more = Path(gains), {"de_pud": 4.0, "tr": 1.0, "sw": 2.0, "zh": 3.0}
    figures = json.loads((folder / "targeted.json").read_text())
    for language, found in figures["languages"].items():
        refined = {**found["masks"]["targeted"], "value": found["base"] + more.get(language, 0.0)}
        found["masks"]["refined"] = refined
    (folder / "targeted.json").write_text(json.dumps(figures))
    study = CORRELATES.run(CorrelatesPlan(gains, mask="refined"), tmp_path / "run")
    likeness = [LIKENESS[language] for language in study.traits]
    assert study.correlates[0].rho == pytest.approx(stats.spearmanr(likeness, [more[name] for name in study.traits])[0])
    assert CORRELATES.load(study.folder) == study


def test_a_missing_mask_is_an_error(gains: str, tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="mask: must be one of targeted, likely, refined, not 'random'"):
        CorrelatesPlan(gains, mask="random")
    with pytest.raises(HeadwiseError, match="has no refined mask: choose another 'mask'"):
        CORRELATES.run(CorrelatesPlan(gains, mask="refined"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_too_few_languages_are_an_error(tmp_path: Path) -> None:
    few = {name: gain for name, gain in GAINS.items() if name != "zh"}
    folder = save_targeted(tmp_path / "few", few, scores_by_language({name: VALUES[name] for name in few}))
    with pytest.raises(HeadwiseError, match=r"'gains': .* has 3 languages other than en"):
        CORRELATES.run(CorrelatesPlan(str(folder)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(HeadwiseError, match="no finished study"):
        CORRELATES.run(CorrelatesPlan(str(tmp_path / "none")), tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("language,near\nde,0.1\nsw,far\n", "line 3: 'far' is not a number"),
        ("language,near\nde,nan\n", "line 2: 'nan' is not a number"),
        ("code,near\nde,0.1\n", "'language' and at least one distance"),
        ("language\nde\n", "'language' and at least one distance"),
        ("", "'language' and at least one distance"),
        ("language,near\nfi,0.1\n", "has none of the languages de, sw"),
        (f"language,near\nde,{'1' * 200_000}\n", "mine.csv: 'typology' is not a table of distances: field larger"),
    ],
)
def test_mistakes_in_files_of_distances_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(HeadwiseError, match=message):
        read_distances(path, ["de", "sw"])
    with pytest.raises(HeadwiseError, match="'typology' cannot be read"):
        read_distances(tmp_path / "none.csv", ["de"])


def test_codes_are_reduced_to_the_language() -> None:
    codes = ["de", "de_pud", "zh-Hans", "SW", "sr", "yue_hk", "q"]
    assert [iso_code(code) for code in codes] == ["deu", "deu", "zho", "swa", "hbs", "yue", None]


#: ISO 639-1 codes and the codes with most data in URIEL, looked up by hand.
CODES = """
af afr am amh ar ara as asm az aze be bel bg bul bn ben br bre bs hbs ca cat cs ces cy cym da dan de deu el ell en eng
eo epo es spa et est eu eus fa fas fi fin fo fao fr fra fy fry ga gle gd gla gl glg gn grn gu guj ha hau he heb hi hin
hr hbs ht hat hu hun hy hye id ind ig ibo is isl it ita ja jpn jv jav ka kat kk kaz km khm kn kan ko kor ku kur ky kir
la lat lb ltz ln lin lo lao lt lit lv lav mg mlg mi mri mk mkd ml mal mn mon mr mar ms msa mt mlt my mya nb nor ne nep
nl nld nn nor no nor or ori pa pan pl pol ps pus pt por qu que ro ron ru rus rw kin sa san sd snd si sin sk slk sl slv
sn sna so som sq sqi sr hbs su sun sv swe sw swa ta tam te tel tg tgk th tha tk tuk tl tgl tn tsn tr tur tt tat ug uig
uk ukr ur urd uz uzb vi vie wo wol xh xho yi yid yo yor zh zho zu zul
"""


def test_codes_are_those_with_most_data_in_uriel() -> None:
    expected = dict(zip(CODES.split()[::2], CODES.split()[1::2], strict=True))
    assert {code: iso_code(code) for code in expected} == expected


def test_without_langcodes_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langcodes", None)
    with pytest.raises(HeadwiseError, match=r"need the package 'langcodes': pip install 'headwise\[cli\]'$"):
        iso_code("de")


def test_correlations_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    gain = dict(zip("abcdefgh", rng.normal(size=8).tolist(), strict=True))
    trait = dict(zip("abcdefgh", rng.integers(4, size=8).astype(float).tolist(), strict=True))
    [found] = correlate(gain, {name: {"trait": value} for name, value in trait.items()})
    assert found.rho == pytest.approx(stats.spearmanr(list(gain.values()), list(trait.values())).statistic)
    assert found.low is not None
    assert found.high is not None
    assert -1 < found.low < found.high < 1


def test_p_values_are_the_share_of_all_permutations() -> None:
    one, other = [1.0, 2.0, 2.0, 4.0, 7.0, 5.0], [2.0, 1.0, 3.0, 5.0, 4.0, 4.0]
    observed = abs(stats.spearmanr(one, other).statistic)
    every = [abs(stats.spearmanr(order, other).statistic) for order in itertools.permutations(one)]
    exact = np.mean(np.array(every) >= observed - 1e-12)
    assert 0.01 < exact < 0.5
    assert permutation_p_value(one, other, 20_000) == pytest.approx(exact, abs=0.01)
    assert permutation_p_value(one, [1.0] * 6, 100) == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: correlates", "'gains' is missing"),
        ("study: correlates\ngains: g\nmodel: m", "unknown field 'model': choose from gains, mask, resamples"),
    ],
)
def test_a_plan_of_correlates_has_no_scoring(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(HeadwiseError, match=message):
        find_plan(str(path))
    path.write_text("study: correlates\ngains: runs/mine\nresamples: 50\n")
    assert find_plan(str(path)) == CorrelatesPlan("runs/mine", resamples=50)


@pytest.mark.usefixtures("uriel")
def test_the_command_prints_tables_and_writes_files(
    gains: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "mine.yaml", tmp_path / "run"
    path.write_text(f"study: correlates\ngains: {gains}\nresamples: 200\n")
    assert run(monkeypatch, "study", path, "--out", folder) == 0
    shown = capsys.readouterr().out
    assert "org/tagger on phrasebook" in shown
    assert "syntactic" in shown
    assert run(monkeypatch, "study", path, "--out", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "correlates.json").read_text())
    with (folder / "correlates.csv").open() as file:
        rows = {row["trait"]: row for row in csv.DictReader(file)}
    assert float(rows["syntactic"]["rho"]) == pytest.approx(0.8)
    assert rows["genetic"]["rho"] == ""
    with (folder / "traits.csv").open() as file:
        assert [row["language"] for row in csv.DictReader(file)] == ["de_pud", "sw", "tr", "zh"]
    assert run(monkeypatch, "report", folder) == 0
    page = (folder / "report.html").read_text()
    assert "Gains" in page
    assert "Similarity of languages" in page
    [command] = report_of(folder).commands
    assert run(monkeypatch, *shlex.split(command)[1:]) == 0  # the same study again


def test_both_folders_can_be_moved_together(gains: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = CORRELATES.run(CorrelatesPlan("targeted"), "run")
    (tmp_path / "elsewhere").mkdir()
    for name in ("targeted", "run"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    monkeypatch.chdir(Path(__file__).parent)
    assert CORRELATES.load(tmp_path / "elsewhere" / "run").correlates == study.correlates


def test_another_targeted_study_in_the_folder_is_named(
    gains: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CORRELATES.run(CorrelatesPlan("targeted"), "run")
    traits = json.loads((tmp_path / "run" / "correlates.json").read_text())
    traits["traits"]["xx"] = next(iter(traits["traits"].values()))
    (tmp_path / "run" / "correlates.json").write_text(json.dumps(traits))
    with pytest.raises(HeadwiseError, match="is another one, it has no language xx"):
        CORRELATES.load(tmp_path / "run")
