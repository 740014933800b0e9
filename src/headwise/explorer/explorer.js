// The explorer: heads as switches, the metric of every language, attention of typed sentences, saving and exporting.
const data = JSON.parse($("data").textContent);
let off = new Set(data.off);
const past = [];
const future = [];
const switches = new Map();

// A number with its sign and a real minus; null is a number that is not finite.
function signed(value, decimals = 1) {
  if (value === null) return "–";
  const text = Math.abs(value).toFixed(decimals);
  return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
}

const plain = (value, decimals = 1) => (value === null ? "–" : value.toFixed(decimals).replace("-", "−"));
const names = () => data.heads.filter((name) => off.has(name));

// Ask the server; an error has the sentence of the server as its message.
async function ask(what, body, signal) {
  let response;
  try {
    response = await fetch(`${what}${location.search}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The explorer does not answer. It may have ended: look at its terminal.");
  }
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found.error ?? `The explorer answered with status ${response.status}.`);
  return found;
}

function say(element, text, problem = false) {
  element.textContent = text;
  element.classList.toggle("problem", problem);
}

// ---- The heads.

function gridOf(grid) {
  const at = new Map(grid.places.map(([row, column, place]) => [`${row} ${column}`, data.heads[place]]));
  const columns = [...Array(grid.columns).keys()];
  const rows = grid.rows.map((layer, row) => {
    const layerHeads = columns.map((column) => at.get(`${row} ${column}`)).filter(Boolean);
    const all = make("button", { type: "button", "data-tip": `all heads of layer ${layer}`, "aria-label": `all heads of layer ${layer}` }, layer);
    all.addEventListener("click", () => {
      const on = layerHeads.some((name) => !off.has(name));
      change(new Set(on ? [...off, ...layerHeads] : [...off].filter((name) => !layerHeads.includes(name))));
    });
    return make("tr", {}, make("th", { scope: "row" }, all), ...columns.map((column) => {
      const name = at.get(`${row} ${column}`);
      return make("td", {}, name ? switchOf(name) : null);
    }));
  });
  const table = make("table", { class: "head-grid" },
    make("thead", {}, make("tr", {}, make("td"), ...columns.map((column) => make("th", { scope: "col" }, String(column))))),
    make("tbody", {}, ...rows));
  table.addEventListener("keydown", moveFocus);
  return grid.title ? [make("h3", {}, grid.title), table] : [table];
}

function switchOf(name) {
  const button = make("button", { type: "button", role: "switch", class: "head-button", "data-head": name, tabindex: switches.size ? "-1" : "0" });
  button.addEventListener("click", () => {
    $("look").value = name;
    const next = new Set(off);
    if (!next.delete(name)) next.add(name);
    change(next);
  });
  switches.set(name, button);
  return button;
}

// Arrow keys move between heads; the map of heads is one tab stop.
function moveFocus(event) {
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
  if (down === undefined || !event.target.matches(".head-button")) return;
  event.preventDefault();
  const cell = event.target.closest("td");
  let [row, column] = [cell.parentNode.rowIndex + down, cell.cellIndex + right];
  const rows = event.currentTarget.rows;
  while (rows[row]?.cells[column] && !rows[row].cells[column].querySelector(".head-button")) { row += down; column += right; }
  const next = rows[row]?.cells[column]?.querySelector(".head-button");
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function paint() {
  const colours = data.scores[$("colours").value];
  data.heads.forEach((name, place) => {
    const button = switches.get(name);
    const step = colours?.steps[place];
    button.setAttribute("aria-checked", String(!off.has(name)));
    button.style.background = step === undefined || step === null ? "" : `var(--c${step})`;
    const value = colours?.values[place];
    const text = [`${name}: ${off.has(name) ? "off" : "on"}`, ...(value ? [`value in ${colours.name}: ${value.replace("-", "−")}`] : [])].join("\n");
    button.dataset.tip = text;
    button.setAttribute("aria-label", text.replace("\n", ", "));
  });
  $("count").textContent = `${off.size} of ${data.heads.length} heads off`;
  $("undo").disabled = !past.length;
  $("redo").disabled = !future.length;
  $("all-on").disabled = !off.size;
}

function change(next) {
  past.push(off);
  future.length = 0;
  off = next;
  update();
}

function step(from, to) {
  if (!from.length) return;
  to.push(off);
  off = from.pop();
  update();
}

function update() {
  hideTip();
  paint();
  measure();
}

// ---- The metric.

let running = null;

async function measure() {
  running?.abort();
  const own = running = new AbortController();
  $("results").classList.add("waiting");
  say($("status"), "measuring …");
  try {
    const found = await ask("measure", { off: names() }, own.signal);
    showResults(found);
    if ($("view").firstChild) attend();
  } catch (error) {
    if (own === running && error.name !== "AbortError") say($("status"), error.message, true);
  }
}

function showResults(found) {
  $("results").classList.remove("waiting");
  $("results").dataset.off = found.off;
  const share = found.plain ? found.units / found.plain : 0;
  say($("status"), `${found.seconds.toFixed(1)} s, ${Math.round(100 * share)}% of the layer passes of a plain evaluation`);
  $("results").replaceChildren(...tableOf(found.languages));
}

function languageCell(row) {
  const code = row.name === row.code ? [] : [" ", make("code", {}, row.code)];
  return make("th", { scope: "row" }, make("bdi", {}, row.name), ...code);
}

function tableOf(languages, last = "With the mask") {
  const title = (text, number = true) => make("th", { scope: "col", class: number ? "number" : "" }, text);
  const reach = Math.max(1e-9, ...languages.flatMap((row) => [row.low, row.high, row.difference]).map((each) => Math.abs(each ?? 0)));
  const rows = languages.map((row) => make("tr", { "data-language": row.code }, languageCell(row),
    make("td", { class: "number" }, String(row.examples)),
    make("td", { class: "number" }, plain(row.base)), make("td", { class: "number" }, plain(row.value)),
    make("td", { class: "number" }, signed(row.difference)),
    make("td", { class: "number" }, `${signed(row.low)} to ${signed(row.high)}`),
    make("td", { class: "changed" }, chartOf(row, reach))));
  const metric = languages[0]?.metric ?? "";
  return [
    make("thead", {}, make("tr", {}, title("Language", false), title("Examples"), title(`Whole model, ${metric}`), title(last), title("Change"), title("95% interval"), make("td"))),
    make("tbody", {}, ...rows),
  ];
}

// The change and its interval on a line; all languages have the same scale.
function chartOf(row, reach) {
  const x = (value) => `${50 + 48 * (value ?? 0) / reach}%`;
  const sure = row.p_value !== null && row.p_value < .05;
  const svg = make("svg", { class: "l0", role: "img", "aria-label": `${signed(row.difference)}, from ${signed(row.low)} to ${signed(row.high)}` },
    make("line", { class: "zero", x1: "50%", x2: "50%", y1: "0", y2: "100%" }),
    make("line", { class: "interval", x1: x(row.low), x2: x(row.high), y1: "50%", y2: "50%" }),
    make("svg", { x: x(row.difference), y: "50%", class: "at" }, make("path", { d: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", class: `dot-mark${sure ? "" : " unsure"}` })));
  return svg;
}

// ---- Attention.

let looking = null;

async function attend() {
  looking?.abort();
  const own = looking = new AbortController();
  say($("attention-status"), "…");
  try {
    const body = { sentence: $("sentence").value, head: $("look").value, off: names(), target: $("target")?.value ?? "" };
    const found = await ask("attention", body, own.signal);
    const frame = make("iframe", { sandbox: "allow-scripts", title: `attention of ${body.head}`, srcdoc: found.page });
    frame.style.height = `${Math.min(140 + 22 * found.tokens, 900)}px`;
    $("view").replaceChildren(frame);
    say($("attention-status"), `${body.head}, without the mask and with it`);
  } catch (error) {
    if (own === looking && error.name !== "AbortError") say($("attention-status"), error.message, true);
  }
}

// ---- Saving and exporting.

async function save() {
  try {
    const found = await ask("save", { off: names(), name: $("mask-name").value });
    say($("saved"), "");
    $("saved").append(make("p", {}, `Saved ${found.path}: ${found.off} of ${data.heads.length} heads off.`), make("pre", {}, found.commands.join("\n")));
  } catch (error) {
    say($("saved"), error.message, true);
  }
}

async function exportModel() {
  $("export").disabled = true;
  say($("exported"), "exporting …");
  try {
    const found = await ask("export", { off: names() });
    const share = 100 * (found.after / found.before - 1);
    const text = `Wrote ${found.folder} without ${found.off} heads: ${found.before.toLocaleString("en")} parameters before, ${found.after.toLocaleString("en")} after (${signed(share, 2)}%). The model as it is read from the folder:`;
    say($("exported"), "");
    $("exported").append(make("p", {}, text), make("div", { class: "frame" }, make("table", {}, ...tableOf(found.languages, "Exported"))));
  } catch (error) {
    say($("exported"), error.message, true);
  }
  $("export").disabled = false;
}

// ---- Start.

$("grids").append(...data.grids.flatMap(gridOf));
$("look").append(...data.heads.map((name) => make("option", { value: name }, name)));
$("colours").append(...data.scores.map((each, place) => make("option", { value: place }, `value in ${each.name}`)));
$("colours-label").hidden = !data.scores.length;
$("example").append(...data.languages.map((each, place) => make("option", { value: place }, each.name)));
$("sentence").value = data.languages[0]?.sentence ?? "";
$("example").addEventListener("change", () => { $("sentence").value = data.languages[$("example").value].sentence; });
$("colours").addEventListener("change", paint);
$("undo").addEventListener("click", () => step(past, future));
$("redo").addEventListener("click", () => step(future, past));
$("all-on").addEventListener("click", () => change(new Set()));
$("export").addEventListener("click", exportModel);
$("ask").addEventListener("submit", (event) => { event.preventDefault(); attend(); });
$("save-form").addEventListener("submit", (event) => { event.preventDefault(); save(); });
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target.matches("input")) return;
  event.preventDefault();
  if (event.shiftKey) step(future, past);
  else step(past, future);
});
paint();
measure();
