"""The README of a pruned model: metadata for the hub, what was removed, how to load it."""

from pathlib import Path

from headwise.heads import HeadMap
from headwise.masks import group_players

_CARD = """\
---
library_name: headwise
{base}{languages}tags:
- headwise
- pruned
---

# {title}

`{cls}` with {removed} of {total} attention heads removed by [headwise](https://pypi.org/project/headwise/).
The heads are cut out of the weights, so plain `from_pretrained` cannot load it:

```python
from headwise import load_pruned

model = load_pruned("{folder}")
```

| site | heads kept | heads removed |
|---|---|---|
{rows}
"""


def write_card(
    folder: Path, heads: HeadMap, removed: tuple[str, ...], languages: tuple[str, ...], class_name: str
) -> None:
    """Write the model card of a shrunk model into its folder."""
    gone = group_players(removed)
    rows = "\n".join(
        f"| {site.name} | {len(site.heads)} | {', '.join(map(str, gone.get(site.name, ()))) or 'none'} |"
        for site in heads.sites
    )
    title = f"{Path(heads.model).name}, pruned" + (f" for {', '.join(languages)}" if languages else "")
    card = _CARD.format(
        base=f"base_model: {heads.model}\n" if is_hub_name(heads.model) else "",
        languages="".join(["language:\n", *(f"- {language}\n" for language in languages)]) if languages else "",
        title=title,
        cls=class_name,
        removed=len(removed),
        total=len(removed) + len(heads.players()),
        folder="path/or/name",
        rows=rows,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def is_hub_name(name: str) -> bool:
    """Whether a name can be a model on the hub rather than a path on some machine."""
    return name.count("/") <= 1 and not name.startswith((".", "/", "~")) and not Path(name).exists()
