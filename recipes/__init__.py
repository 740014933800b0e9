"""Recipes that train the models of the project."""
