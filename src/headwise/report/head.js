// The page of one head, search, and links: #head=L3H5&language=zh.
const SHORT = /^L(\d+)H(\d+)$/i;
const BRIEF = /^(\d+)[.,:\s-](\d+)$/;

// The shapes of the run itself; runs that it is compared with may have others.
const mainShapes = data ? [...new Set(data.languages.map((language) => data.shapes[language.shape]))] : [];

// The full name of a head, from a full name, L3H5 or 3.5; the first stack that has it.
function findHead(text) {
  const wanted = text.trim();
  const match = SHORT.exec(wanted) ?? BRIEF.exec(wanted);
  for (const shape of mainShapes) {
    if (shape.players.includes(wanted)) return wanted;
    if (!match) continue;
    const ending = new RegExp(`^\\w+\\.${Number(match[1])}\\.(kv)?${Number(match[2])}$`);
    const found = shape.players.find((name) => ending.test(name));
    if (found) return found;
  }
  return null;
}

// The short name of a head, L3H5, if it leads to this head.
function shortName(name) {
  const match = /^\w+\.(\d+)\.(\d+)$/.exec(name);
  const short = match && `L${match[1]}H${match[2]}`;
  return short && findHead(short) === name ? short : name;
}

function linkTo(name, code) {
  const parts = [`head=${encodeURIComponent(shortName(name))}`];
  if (code !== undefined) parts.push(`language=${encodeURIComponent(code)}`);
  if ($("view").value !== "value") parts.push(`view=${encodeURIComponent($("view").value)}`);
  if (look.view !== "lines") parts.push(`attention=${look.view}`);
  return `#${parts.join("&")}`;
}

// Opening a head changes the link of the page, so that the back button closes it and the link can be shared.
function openHead(name, code) {
  const link = linkTo(name, code);
  if (location.hash === link) readLink();
  else location.hash = link;
}

function closeHead() {
  if ($("head-page").hidden) return;
  $("head-page").hidden = true;
  document.documentElement.classList.remove("with-head");
  if (location.hash.startsWith("#head=")) history.replaceState(null, "", location.pathname + location.search);
  back?.focus?.({ preventScroll: true });
}

let back = null; // what had the focus before the head was opened
let current = null;

function showHead(name, code) {
  const panel = $("head-page");
  if (panel.hidden) back = document.activeElement;
  current = { name, code };
  hideTip();
  const known = data.languages.map((language) => ({ language, place: data.shapes[language.shape].players.indexOf(name) }))
    .filter(({ place }) => place >= 0).map(({ language, place }) => ({ language, place, ...scoreOf(language, place) }));
  const short = shortName(name);
  $("head-title").replaceChildren(make("bdi", {}, short), ...(short === name ? [] : [" ", make("code", {}, name)]));
  $("head-body").replaceChildren(...[
    verdict(known), valueChart(known, code), ...runCharts(name, code), attentionPart(name, code), maskList(known), roleTable(known), relationTable(known),
  ].filter(Boolean));
  panel.hidden = false;
  document.documentElement.classList.add("with-head");
  $("head-body").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  $("head-title").focus({ preventScroll: true });
}

function verdict(known) {
  if (!data.signed) return null;
  const parts = Object.values(DECISIONS).map((word) => {
    const found = known.filter((each) => each.decision === word && !Number.isNaN(each.value)).map((each) => each.language.name);
    if (!found.length) return null;
    return make("li", {}, make("b", {}, word), ` in ${found.length} of ${known.length}: `, make("bdi", {}, found.join(", ")));
  });
  return make("ul", { class: "verdict" }, ...parts);
}

// The values of the head in the runs that this one is compared with. A run that removes one head at a time tells what
// removing this head alone does: the opposite of its value.
function runCharts(name, code) {
  return data.runs.map((run, place) => {
    const languages = run.languages ?? data.languages;
    if (!place && !run.alone) return null; // the main chart shows it
    const found = languages.map((language) => ({ language, place: data.shapes[language.shape].players.indexOf(name) })).filter(({ place: at }) => at >= 0)
      .map(({ language, place: at }) => ({ language, place: at, ...scoreOf(language, at, run.decimals) }));
    if (!found.length) return null;
    if (!run.alone) return valueChart(found, code, run.decimals, ["Value in the run ", make("bdi", {}, run.name)], run.about);
    const turned = found.map((each) => ({ ...each, value: -each.value, low: -each.high, high: -each.low }));
    const game = run.scales.map((scale) => scale.split(", ").slice(0, -1).join(", ") || "the value").join("; ");
    const about = `The change of ${game} when only this ${data.noun} is removed, with 95% intervals. Orange: the ${data.noun} is harmful.`;
    return valueChart(turned, code, run.decimals, ["Removed alone, by the run ", make("bdi", {}, run.name)], about);
  });
}

const LEGEND = data?.signed === false ? "With 95% intervals. Values of this method do not tell harmful heads from helpful ones."
  : "With 95% intervals. Filled: decided at the error rate of the run; orange harmful, blue helpful.";

// Value and 95% interval in every language, highest first.
function valueChart(known, code, places = data.decimals, title = ["Value in every language"], legend = LEGEND) {
  const decimals = places - 1;
  const rows = [...known].sort((a, b) => (Number.isNaN(a.value) - Number.isNaN(b.value)) || b.value - a.value);
  const ends = rows.flatMap((each) => [each.value, each.low, each.high]).filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const x = (value) => `${4 + 92 * (high > low ? (value - low) / (high - low) : .5)}%`;
  const cells = rows.flatMap((each) => {
    const { language, value } = each;
    const chosen = language.code === code ? " chosen" : "";
    const marks = [make("line", { x1: x(0), x2: x(0), y1: 0, y2: "100%", class: "zero" })];
    if (Number.isFinite(value)) {
      const kind = { harmful: "worse", helpful: "better", undecided: "undecided" }[each.decision];
      if (Number.isFinite(each.low)) marks.push(make("line", { x1: x(each.low), x2: x(each.high), y1: 11, y2: 11, class: `interval ${kind}` }));
      const dot = make("path", { d: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", class: `value-dot ${kind}` });
      marks.push(make("svg", { x: x(value), y: 11, class: "at" }, dot));
    }
    const text = Number.isNaN(value) ? "–" : signed(value, decimals);
    const spread = Number.isFinite(each.low) ? `95% interval ${signed(each.low, decimals)} to ${signed(each.high, decimals)}, ` : "";
    const words = Number.isNaN(value) ? `${language.name}: no value` : `${language.name}: ${text}\n${spread}${data.signed ? each.decision : ""}`;
    return [
      make("div", { class: `gain-label${chosen}` }, ...label(language)),
      make("svg", { width: "100%", height: 22, "data-tip": words, role: "img", "aria-label": words }, ...marks),
      make("div", { class: `number${chosen}` }, text),
    ];
  });
  return make("section", {}, make("h3", {}, ...title), make("div", { class: "value-chart" }, ...cells), make("p", { class: "legend" }, legend));
}

function maskList(known) {
  const names = Object.keys(data.masks);
  if (!names.length) return null;
  const lines = names.map((name) => {
    const found = known.filter((each) => (data.masks[name][each.language.code] ?? []).includes(each.place));
    const where = found.length ? found.map((each) => each.language.name).join(", ") : "no language";
    return make("li", {}, make("b", {}, name), `: ${found.length ? "" : "in "}`, make("bdi", {}, where));
  });
  return make("section", {}, make("h3", {}, "Removed by the masks of"), make("ul", { class: "verdict" }, ...lines));
}

function roleTable(known) {
  if (!Object.keys(data.roles).length) return null;
  const rows = known.flatMap(({ language, place }) => rolesOf(language, place).map((role) => make("tr", {},
    make("th", { scope: "row" }, ...label(language)), make("td", {}, role.name), make("td", {}, make("code", {}, role.statistic)),
    make("td", { class: "number" }, role.value.toFixed(2)), make("td", {}, role.sure ? "" : "perhaps"))));
  if (!rows.length) return make("section", {}, make("h3", {}, "Roles"), make("p", {}, "No role in any language."));
  const head = ["Language", "Role", "Statistic", "Value", ""].map((title) => make("th", { scope: "col" }, title));
  return make("section", {}, make("h3", {}, "Roles"), make("div", { class: "frame" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
}

// The relation that the head follows best in every language, beside the most frequent offset of the relation.
function relationTable(known) {
  if (!data.relations.rows) return null;
  const rows = known.flatMap(({ language, place }) => (data.relations.rows[language.code] ?? []).filter((row) => row[0] === place)
    .map(([, relation, right]) => make("tr", {}, make("th", { scope: "row" }, ...label(language)), make("td", {}, data.relations.names[relation]),
      make("td", { class: "number" }, `${right}%`), make("td", { class: "number" }, `${data.relations.offsets[language.code][relation]}%`))));
  if (!rows.length) return null;
  const head = [["Language"], ["Relation"], ["Right", "number"], ["Offset", "number"]].map(([title, kind]) => make("th", { scope: "col", class: kind }, title));
  return make("section", {}, make("h3", {}, "Best relation"), make("div", { class: "frame" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))),
  make("p", { class: "legend" }, "The relation whose accuracy exceeds that of its most frequent offset by most: how often the largest attention goes to the related word."));
}

// Read the link of the page: which head, which language, which view.
function readLink() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const view = asked.get("view");
  if (view !== null && view !== $("view").value && [...$("view").options].some((option) => option.value === view)) {
    $("view").value = view;
    redraw();
  }
  if (Object.hasOwn(LOOKS, asked.get("attention") ?? "")) look.view = asked.get("attention");
  if (asked.get("head") === null) {
    if (location.hash.includes("=") || !location.hash) closeHead();
    return;
  }
  const name = findHead(asked.get("head"));
  $("found").textContent = name ? "" : `There is no ${data.noun} ${asked.get("head")}.`;
  if (name) showHead(name, asked.get("language") ?? undefined);
}

function step(by) {
  const { players } = mainShapes.find((shape) => shape.players.includes(current.name));
  const next = players[(players.indexOf(current.name) + by + players.length) % players.length];
  history.replaceState(null, "", linkTo(next, current.code));
  showHead(next, current.code);
}

if (data) {
  $("head-close").addEventListener("click", closeHead);
  $("head-previous").addEventListener("click", () => step(-1));
  $("head-next").addEventListener("click", () => step(1));
  $("head-wide")?.addEventListener("click", () => $("head-page").classList.toggle("wide"));
  addEventListener("hashchange", readLink);
  addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, select, textarea");
    if (event.key === "Escape") closeHead();
    if (event.key === "/" && !typing) {
      event.preventDefault();
      $("find-head").focus();
    }
    if (!$("head-page").hidden && $("head-page").contains(event.target) && !typing) {
      if (event.key === "ArrowLeft") step(-1);
      if (event.key === "ArrowRight") step(1);
    }
  });
  const search = $("find-head");
  search.addEventListener("focus", () => {
    if ($("head-names").children.length) return;
    const names = [...new Set(mainShapes.flatMap((shape) => shape.players))];
    $("head-names").append(...names.map((name) => make("option", { value: shortName(name) })));
  });
  search.addEventListener("change", () => {
    if (!search.value.trim()) return;
    const name = findHead(search.value);
    $("found").textContent = name ? "" : `There is no ${data.noun} ${search.value.trim()}.`;
    if (name) openHead(name, current?.code);
  });
  readLink();
}
