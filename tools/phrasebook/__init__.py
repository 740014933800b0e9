"""Checks of the built-in treebank `phrasebook`: UD's rules, and agreement with taggers of published treebanks."""
