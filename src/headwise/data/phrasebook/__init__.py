"""The parallel treebank that comes with headwise."""

from headwise.data.phrasebook.phrasebook import LANGUAGES, open_phrasebook, phrasebook_sentences

__all__ = ["LANGUAGES", "open_phrasebook", "phrasebook_sentences"]
