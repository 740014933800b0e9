"""The parallel treebank that comes with headwise."""

from headwise.data.phrasebook.phrasebook import (
    LANGUAGES,
    open_phrasebook,
    open_phrasebook_trees,
    phrasebook_sentences,
)

__all__ = ["LANGUAGES", "open_phrasebook", "open_phrasebook_trees", "phrasebook_sentences"]
