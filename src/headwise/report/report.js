// Parts that every page has: tips, the theme, tables, kinds of masks, plots.
const tip = $("tip");
let anchor = null;

function showTip(text, at) {
  anchor = at;
  tip.textContent = text;
  tip.hidden = false;
  placeTip();
}

// Place the tip next to its anchor, an element or a rectangle. Called again on scrolling, because moving the focus may
// scroll the page.
function placeTip() {
  if (tip.hidden) return;
  const box = anchor.getBoundingClientRect ? anchor.getBoundingClientRect() : anchor();
  const own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(box.left + box.width / 2 - own.width / 2, 4), innerWidth - own.width - 4);
  const above = box.top - own.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above < 4 ? box.top + box.height + 8 : above}px`;
}

function hideTip() {
  tip.hidden = true;
}

const tipped = (event) => event.target.closest("[data-tip]");
addEventListener("pointerover", (event) => tipped(event) && showTip(tipped(event).dataset.tip, tipped(event)));
addEventListener("pointerout", (event) => tipped(event) && hideTip());
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", placeTip, { passive: true, capture: true });

// The theme: that of the system, light or dark. It is remembered where the browser allows it.
{
  const theme = $("theme");
  const stored = () => {
    try { return localStorage.getItem("headwise-theme"); } catch { return null; }
  };
  const apply = () => {
    document.documentElement.dataset.theme = theme.value;
    try { localStorage.setItem("headwise-theme", theme.value); } catch { /* no storage: the choice lasts until reload */ }
  };
  if (["system", "light", "dark"].includes(stored())) theme.value = stored();
  theme.addEventListener("change", apply);
  apply();
}

// The map of languages: a tip for each cell, one tab stop, arrow keys inside.
for (const grid of document.querySelectorAll('[role="grid"]')) {
  const rows = [...grid.querySelectorAll('[role="row"]')].map((row) => [...row.querySelectorAll("rect")]);
  const describe = (cell) => showTip(cell.getAttribute("aria-label"), cell);
  for (const cell of rows.flat()) {
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("tabindex", "-1");
  }
  rows[0][0].setAttribute("tabindex", "0");
  grid.addEventListener("pointerover", (event) => event.target.matches("rect") && describe(event.target));
  grid.addEventListener("pointerleave", hideTip);
  grid.addEventListener("focusin", (event) => describe(event.target));
  grid.addEventListener("focusout", hideTip);
  grid.addEventListener("keydown", (event) => {
    const row = rows.findIndex((cells) => cells.includes(event.target));
    const column = row < 0 ? -1 : rows[row].indexOf(event.target);
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
    const next = down === undefined ? null : rows[row + down]?.[column + right];
    if (!next) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

// Kinds of masks: shown or hidden in the chart and in the table.
for (const box of document.querySelectorAll(".kinds input")) {
  const apply = () => {
    for (const each of box.closest("section").querySelectorAll(`:is(svg, tr)[data-kind="${box.dataset.kind}"]`)) {
      each.toggleAttribute("hidden", !box.checked);
    }
  };
  box.addEventListener("change", apply);
  apply();
}

// Columns of a table: shown or hidden.
for (const box of document.querySelectorAll("[data-column]")) {
  const table = box.closest("details").querySelector("table");
  const apply = () => {
    for (const row of table.rows) row.cells[box.dataset.column].hidden = !box.checked;
  };
  box.addEventListener("change", apply);
  apply();
}

// Tables: a click on a title sorts by its column, numbers in descending order; another click reverses the order.
for (const button of document.querySelectorAll(".sortable thead button")) {
  button.addEventListener("click", () => {
    const title = button.parentNode;
    const titles = [...title.parentNode.children];
    const column = titles.indexOf(title);
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

// On paper, all tables are open.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});

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
