// Parts that every page has: tips, the theme, tables, kinds of masks.
const tip = $("tip");

// A number with its sign and a real minus; a number that rounds to zero has none.
function signed(value, decimals) {
  const text = Math.abs(value).toFixed(decimals);
  return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
}

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
