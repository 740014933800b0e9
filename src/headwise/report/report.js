"use strict";
{
  const tip = document.getElementById("tip");

  let anchor = null;

  function showTip(text, at) {
    anchor = at;
    tip.textContent = text;
    tip.hidden = false;
    placeTip();
  }

  // Place the tip next to its anchor. Called again on scrolling, because moving the focus may scroll the page.
  function placeTip() {
    if (tip.hidden) return;
    const box = anchor.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(box.left + box.width / 2 - own.width / 2, 4), innerWidth - own.width - 4);
    const above = box.top - own.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above < 4 ? box.bottom + 8 : above}px`;
  }

  function hideTip() {
    tip.hidden = true;
  }

  // Maps: one tab stop per map, arrow keys inside, and a tip for the cell under the mouse or in focus.
  const cellOf = (event) => event.target.closest('[role="gridcell"]');
  const describe = (cell) => showTip(cell.getAttribute("aria-label"), cell);

  function enter(cell) {
    for (const other of cell.closest('[role="grid"]').querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  // The target of an arrow key: the next cell in the row, or the nearest cell in the next row.
  function neighbour(cell, key) {
    const row = cell.parentNode;
    const cells = [...row.querySelectorAll('[role="gridcell"]')];
    const place = cells.indexOf(cell);
    if (key === "ArrowLeft") return cells[place - 1];
    if (key === "ArrowRight") return cells[place + 1];
    if (key === "Home") return cells[0];
    if (key === "End") return cells.at(-1);
    const rows = [...row.parentNode.querySelectorAll('[role="row"]')];
    const next = rows[rows.indexOf(row) + { ArrowUp: -1, ArrowDown: 1 }[key]];
    const distance = (other) => Math.abs(other.x.baseVal.value - cell.x.baseVal.value);
    return next && [...next.querySelectorAll('[role="gridcell"]')].sort((a, b) => distance(a) - distance(b))[0];
  }

  for (const grid of document.querySelectorAll('[role="grid"]')) {
    for (const cell of grid.querySelectorAll('[role="row"] rect')) {
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
    }
    grid.querySelector('[role="gridcell"]').tabIndex = 0;
    grid.addEventListener("pointerover", (event) => cellOf(event) && describe(cellOf(event)));
    grid.addEventListener("pointerleave", hideTip);
    grid.addEventListener("focusin", (event) => cellOf(event) && describe(cellOf(event)));
    grid.addEventListener("focusout", hideTip);
    grid.addEventListener("click", (event) => cellOf(event) && enter(cellOf(event)));
    grid.addEventListener("keydown", (event) => {
      const next = cellOf(event) && neighbour(cellOf(event), event.key);
      if (!next) return;
      event.preventDefault();
      enter(next);
    });
  }
  addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  addEventListener("scroll", placeTip, { passive: true, capture: true });

  // Switch between a shared colour scale and one per map.
  const own = document.getElementById("own-scale");
  if (own) {
    const apply = () => own.closest("section").classList.toggle("own", own.checked);
    own.addEventListener("change", apply);
    apply();
  }

  // Tables: a click on a title sorts by its column, numbers in descending order; another click reverses the order.
  for (const button of document.querySelectorAll(".sortable thead button")) {
    button.addEventListener("click", () => {
      const title = button.parentNode;
      const titles = [...title.parentNode.children];
      const column = titles.slice(0, titles.indexOf(title)).reduce((sum, each) => sum + each.colSpan, 0);
      const numeric = title.classList.contains("number");
      const down = title.ariaSort ? title.ariaSort === "ascending" : numeric;
      for (const each of titles) each.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = title.closest("table").tBodies[0];
      const key = (row) => row.cells[column].dataset.v;
      const compare = (a, b) => {
        if (!numeric) return a.cells[column].textContent.localeCompare(b.cells[column].textContent) * (down ? -1 : 1);
        if (key(a) === undefined || key(b) === undefined) return (key(a) === undefined) - (key(b) === undefined);
        return (key(a) - key(b)) * (down ? -1 : 1);
      };
      body.append(...[...body.rows].sort(compare));
    });
  }

  // Plots: show the values at the number of heads chosen with the mouse or the arrow keys.
  for (const plot of document.querySelectorAll(".plot")) {
    const cursor = plot.querySelector(".cursor");
    const lines = [...plot.querySelectorAll("polyline")];
    const stops = [...new Set(lines.flatMap((line) => [...line.points].map((point) => point.x)))].sort((a, b) => a - b);
    if (!stops.length) continue;
    const matrix = lines[0].parentNode.transform.baseVal.consolidate().matrix;
    let at = 0;

    const read = () => {
      const found = lines.flatMap((line) => [...line.points].filter((point) => point.x === stops[at])
        .map((point) => `${line.dataset.name}: ${point.y.toFixed(1)}`));
      const x = matrix.a * stops[at] + matrix.e;
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      const text = [`${stops[at]} ${plot.dataset.noun}`, ...found].join("\n");
      plot.setAttribute("aria-valuenow", stops[at]);
      plot.setAttribute("aria-valuetext", text);
      showTip(text, cursor);
    };
    const leave = () => {
      hideTip();
      cursor.setAttribute("x1", -9);
      cursor.setAttribute("x2", -9);
    };
    plot.setAttribute("role", "slider");
    plot.setAttribute("aria-valuemin", stops[0]);
    plot.setAttribute("aria-valuemax", stops.at(-1));
    plot.setAttribute("aria-valuenow", stops[0]);
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width * plot.viewBox.baseVal.width - matrix.e) / matrix.a;
      at = stops.reduce((best, stop, place) => (Math.abs(stop - x) < Math.abs(stops[best] - x) ? place : best), 0);
      read();
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("focus", read);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
      const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: stops.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      at = Math.min(Math.max(next, 0), stops.length - 1);
      read();
    });
  }
}
