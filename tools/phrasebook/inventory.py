"""Tags and relations of Universal Dependencies, and their allowed combinations."""

import headwise.data.examples


def _names(text: str) -> frozenset[str]:
    """The names in a text, separated by spaces."""
    return frozenset(text.split())


UPOS = frozenset(headwise.data.examples.UPOS)
RELATIONS = _names(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det "
    "discourse dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj "
    "obl orphan parataxis punct reparandum root vocative xcomp"
)
#: Language -> subtypes of relations that its treebanks use.
SUBTYPES: dict[str, frozenset[str]] = {
    language: _names(text)
    for language, text in {
        "en": "acl:relcl advcl:relcl aux:pass cc:preconj compound:prt csubj:outer csubj:pass "
        "det:predet nmod:desc nmod:poss nmod:unmarked nsubj:outer nsubj:pass obl:agent "
        "obl:unmarked",
        "de": "acl:relcl advcl:relcl aux:pass cc:preconj compound:prt csubj:outer csubj:pass "
        "det:poss expl:pv flat:foreign flat:name nmod:poss nsubj:outer nsubj:pass obl:agent "
        "obl:arg obl:tmod obl:unmarked nmod:unmarked",
        "fr": "acl:relcl advcl:cleft advcl:relcl aux:caus aux:pass aux:tense csubj:pass "
        "expl:comp expl:pass expl:pv expl:subj flat:foreign flat:name iobj:agent nsubj:caus "
        "nsubj:outer nsubj:pass obj:agent obj:lvc obl:agent obl:arg obl:mod parataxis:insert",
        "es": "acl:relcl advcl:relcl aux:pass cc:preconj compound:prt csubj:pass expl:impers "
        "expl:pass expl:pv flat:foreign flat:name nsubj:outer nsubj:pass obl:agent obl:arg "
        "obl:tmod obl:unmarked",
        "ru": "acl:relcl advcl:relcl aux:pass csubj:pass expl:pv flat:foreign flat:name "
        "nsubj:outer nsubj:pass nummod:entity nummod:gov obl:agent obl:tmod "
        "parataxis:discourse",
        "tr": "acl:relcl advcl:relcl advmod:emph aux:q cc:preconj compound:lvc compound:redup "
        "csubj:outer csubj:pass flat:foreign nmod:part nmod:poss nsubj:outer nsubj:pass "
        "obl:agent obl:tmod",
        "ar": "acl:relcl advcl:relcl advmod:emph aux:pass cc:preconj compound:prt csubj:pass "
        "flat:foreign nmod:gmod nsubj:outer nsubj:pass obl:agent obl:arg obl:tmod",
        "hi": "acl:relcl advcl:relcl aux:pass cc:preconj compound:lvc compound:redup "
        "compound:svc csubj:pass flat:name nmod:poss nsubj:outer nsubj:pass obl:agent obl:tmod",
        "zh": "acl:relcl aux:pass case:loc cc:preconj compound:dir compound:ext compound:vo "
        "compound:vv csubj:outer csubj:pass discourse:sp flat:foreign flat:name mark:adv "
        "mark:prt mark:rel nmod:tmod nsubj:outer nsubj:pass obl:agent obl:patient obl:tmod",
        "ja": "acl:relcl aux:pass csubj:outer csubj:pass nsubj:outer nsubj:pass obl:agent",
        "ko": "acl:relcl advcl:relcl aux:pass compound:lvc csubj:pass flat:foreign flat:name "
        "nmod:poss nsubj:outer nsubj:pass obl:agent obl:tmod",
        "vi": "acl:relcl acl:subj acl:tmod acl:tonp advcl:objective advmod:adj advmod:dir "
        "advmod:neg appos:nmod aux:pass cc:preconj clf:det compound:adj compound:amod "
        "compound:apr compound:atov compound:dir compound:pron compound:prt compound:redup "
        "compound:svc compound:verbnoun compound:vmod compound:z csubj:asubj csubj:pass "
        "csubj:vsubj det:pmod flat:date flat:foreign flat:name flat:number flat:time "
        "mark:pcomp nmod:poss nsubj:nn nsubj:pass nsubj:xsubj nummod:det obl:about obl:adj "
        "obl:adv obl:agent obl:comp obl:iobj obl:tmod obl:with xcomp:adj xcomp:dir xcomp:vcomp",
    }.items()
}
# There is no treebank of Thai or Swahili with an inventory, so all subtypes are allowed.
SUBTYPES["th"] = SUBTYPES["sw"] = frozenset().union(*SUBTYPES.values())

#: Relation (universal part) -> UPOS tags allowed for the dependent.
TAGS: dict[str, frozenset[str]] = {
    relation: _names(text)
    for relation, text in {
        "det": "DET PRON NUM",
        "nummod": "NUM NOUN SYM",
        "advmod": "ADV ADJ CCONJ DET PART SYM ADP SCONJ",
        "expl": "PRON DET PART",
        "aux": "AUX",
        "cop": "AUX PRON DET SYM VERB",
        "case": "ADP ADV ADJ PART SCONJ NOUN VERB SYM X",
        "mark": "SCONJ PART ADP ADV ADJ CCONJ VERB NOUN PRON",
        "cc": "CCONJ ADV ADP PART SCONJ",
        "clf": "NOUN",
        "amod": "ADJ VERB NOUN NUM ADV PROPN DET X",
        "punct": "PUNCT",
    }.items()
}
TAGS_BY_LANGUAGE: dict[tuple[str, str], frozenset[str]] = {
    ("fr", "det"): TAGS["det"] | {"ADP", "ADV"},
    ("en", "advmod"): TAGS["advmod"] | {"NOUN"},
}

_ALWAYS = _names("goeswith fixed reparandum conj cc punct")
#: Relation of a function word -> allowed relations of its children (as in level 3 of UD's validator).
LEAVES: dict[str, frozenset[str]] = {
    "mark": _ALWAYS | {"advmod", "obl", "amod", "parataxis", "discourse"},
    "case": _ALWAYS | {"advmod", "obl", "nmod", "amod", "discourse", "case"},
    "aux": _ALWAYS | {"advmod", "parataxis", "discourse"},
    "cop": _ALWAYS | {"advmod", "parataxis", "discourse"},
    "cc": _names("goeswith fixed reparandum conj punct advmod"),
    "det": _ALWAYS | {"advmod", "nmod", "obl", "det", "case", "amod", "advcl", "clf", "nummod", "discourse"},
    "fixed": _names("goeswith reparandum conj punct"),
    "goeswith": frozenset(),
    "punct": frozenset({"punct"}),
}
ENTITY_TYPES = ("PER", "ORG", "LOC", "MISC")
