// Compare: the values of two runs, or of two languages, head by head. The link is #compare=RUN&language=zh&with=RUN&other=tr.
const PLOT = { width: 460, height: 400, left: 62, right: 12, top: 10, bottom: 46 };
const MARKS = { circle: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", diamond: "M-5.5 0l5.5-5.5 5.5 5.5-5.5 5.5z", triangle: "M0-5l4.8 8.2h-9.6z" };
// How two decisions are drawn: class, mark, meaning.
const PAIRS = {
  harmful: ["pair-harmful", "circle", "harmful in both"],
  helpful: ["pair-helpful", "circle", "helpful in both"],
  undecided: ["pair-undecided", "circle", "undecided in both"],
  one: ["pair-one", "triangle", "decided in one"],
  opposite: ["pair-opposite", "diamond", "harmful in one, helpful in the other"],
};

const languagesOf = (run) => run.languages ?? data.languages;

// One side of the comparison: the run and the language that its menus choose.
function sideOf(name) {
  const run = data.runs[$(`compare-run-${name}`)?.value ?? 0];
  const code = $(`compare-language-${name}`).value;
  return { run, language: languagesOf(run).find((language) => language.code === code) };
}

const sideName = ({ run, language }) => (data.runs.length > 1 ? `${language.name}, ${run.name}` : language.name);

function pairOf(one, other) {
  if (one === other) return one;
  return one === "undecided" || other === "undecided" ? "one" : "opposite";
}

// The heads that both sides have, with both scores.
function pairsOf(one, other) {
  const [names, others] = [one, other].map(({ language }) => data.shapes[language.shape].players);
  const places = new Map(others.map((name, place) => [name, place]));
  return names.flatMap((name, place) => {
    if (!places.has(name)) return [];
    const [a, b] = [scoreOf(one.language, place, one.run.decimals), scoreOf(other.language, places.get(name), other.run.decimals)];
    return Number.isFinite(a.value) && Number.isFinite(b.value) ? [{ name, a, b, pair: pairOf(a.decision, b.decision) }] : [];
  });
}

// Ranks from 1; equal values share the mean of their ranks.
function ranks(values) {
  const order = values.map((_, place) => place).sort((a, b) => values[a] - values[b]);
  const found = new Array(values.length);
  for (let start = 0; start < order.length;) {
    let stop = start;
    while (stop + 1 < order.length && values[order[stop + 1]] === values[order[start]]) stop += 1;
    for (let place = start; place <= stop; place += 1) found[order[place]] = (start + stop) / 2 + 1;
    start = stop + 1;
  }
  return found;
}

function correlation(one, other) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [a, b] = [ranks(one), ranks(other)];
  const [x, y] = [mean(a), mean(b)];
  const sum = (product) => a.reduce((total, value, place) => total + product(value - x, b[place] - y), 0);
  return sum((u, v) => u * v) / Math.sqrt(sum((u) => u * u) * sum((_, v) => v * v));
}

// An axis: its range with a margin, and the place of a value in pixels.
function axisOf(values, start, end) {
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const margin = .06 * (high - low || 1);
  return (value) => start + (end - start) * Math.min(Math.max((value - low + margin) / (high - low + 2 * margin), 0), 1);
}

function scatter(pairs, one, other) {
  const x = axisOf(pairs.map(({ a }) => a.value), PLOT.left, PLOT.width - PLOT.right);
  const y = axisOf(pairs.map(({ b }) => b.value), PLOT.height - PLOT.bottom, PLOT.top);
  const names = [one, other].map(sideName);
  const svg = make("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, width: PLOT.width, class: "scatter", role: "img",
    "aria-label": `Values of ${pairs.length} ${data.noun}s: ${names[0]} against ${names[1]}. The table below has those that change.` });
  svg.append(make("rect", { x: PLOT.left, y: PLOT.top, width: PLOT.width - PLOT.left - PLOT.right, height: PLOT.height - PLOT.top - PLOT.bottom, class: "none" }),
    make("line", { x1: x(0), x2: x(0), y1: PLOT.top, y2: PLOT.height - PLOT.bottom, class: "zero" }),
    make("line", { x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(0), y2: y(0), class: "zero" }));
  const decimals = [one, other].map(({ run }) => run.decimals - 1);
  const ends = (key) => [Math.min(...pairs.map((each) => each[key].value)), 0, Math.max(...pairs.map((each) => each[key].value))];
  const apart = (place, room) => (value) => !value || Math.abs(place(value) - place(0)) > room; // labels that do not touch that of 0
  for (const value of ends("a").filter(apart(x, 52))) svg.append(make("text", { x: x(value), y: PLOT.height - PLOT.bottom + 15, "text-anchor": "middle" }, signed(value, decimals[0])));
  for (const value of ends("b").filter(apart(y, 13))) svg.append(make("text", { x: PLOT.left - 5, y: y(value) + 4, "text-anchor": "end" }, signed(value, decimals[1])));
  svg.append(make("text", { x: (PLOT.left + PLOT.width) / 2, y: PLOT.height - 8, "text-anchor": "middle", class: "axis-title" }, names[0]),
    make("text", { transform: `rotate(-90) translate(${-(PLOT.height - PLOT.bottom) / 2} 13)`, "text-anchor": "middle", class: "axis-title" }, names[1]));
  // Pairs that agree first, so that those that change lie on top.
  const order = Object.keys(PAIRS);
  for (const each of [...pairs].sort((p, q) => (order.indexOf(p.pair) + 3) % 5 - (order.indexOf(q.pair) + 3) % 5)) svg.append(pointOf(each, x, y, one, other));
  return svg;
}

function pointOf({ name, a, b, pair }, x, y, one, other) {
  const [kind, mark] = PAIRS[pair];
  const lines = [];
  if (Number.isFinite(a.low)) lines.push(make("line", { x1: x(a.low), x2: x(a.high), y1: y(b.value), y2: y(b.value) }));
  if (Number.isFinite(b.low)) lines.push(make("line", { x1: x(a.value), x2: x(a.value), y1: y(b.low), y2: y(b.high) }));
  const describe = (side, score) => `${sideName(side)}: ${scoreText(score, side.run.decimals)}, ${score.decision}`;
  const point = make("g", { class: `pair ${kind}`, "data-head": name, "data-tip": [name, describe(one, a), describe(other, b)].join("\n") }, ...lines,
    make("path", { d: MARKS[mark], transform: `translate(${x(a.value)} ${y(b.value)})` }));
  point.addEventListener("click", () => openHead(name, one.language.code));
  return point;
}

function scoreText(score, decimals) {
  const spread = Number.isNaN(score.stderr) ? "" : ` ± ${(1.959964 * score.stderr).toFixed(decimals - 1)}`;
  return `${signed(score.value, decimals - 1)}${spread}`;
}

// The heads whose decision differs: those with opposite decisions first, then by the distance in standard errors.
function changeTable(pairs, one, other) {
  const distance = ({ a, b }) => Math.abs(a.value / (a.stderr || NaN) - b.value / (b.stderr || NaN)) || 0;
  const found = pairs.filter(({ pair }) => pair === "one" || pair === "opposite")
    .sort((p, q) => (q.pair === "opposite") - (p.pair === "opposite") || distance(q) - distance(p));
  if (!found.length) return make("p", {}, `No ${data.noun} changes its decision.`);
  const cells = (side, score) => [make("td", { class: "number" }, scoreText(score, side.run.decimals)), make("td", {}, score.decision)];
  const rows = found.map(({ name, a, b }) => make("tr", {},
    make("th", { scope: "row" }, make("a", { href: linkTo(name, one.language.code) }, make("code", {}, name))), ...cells(one, a), ...cells(other, b)));
  const title = (side) => make("th", { scope: "col", colspan: 2 }, make("bdi", {}, sideName(side)));
  return make("div", { class: "frame changes", tabindex: "0", role: "region", "aria-label": "Changed decisions" }, make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, `${data.noun[0].toUpperCase()}${data.noun.slice(1)}`), title(one), title(other))),
    make("tbody", {}, ...rows)));
}

function summary(pairs, one, other) {
  const rho = correlation(pairs.map(({ a }) => a.value), pairs.map(({ b }) => b.value));
  const counts = Object.entries(PAIRS).map(([kind, [, , words]]) => [pairs.filter(({ pair }) => pair === kind).length, words])
    .filter(([count]) => count).map((each) => each.join(" "));
  const [here, there] = [one, other].map(({ run, language }) => run.scales[language.scale]);
  return [
    make("p", {}, `${pairs.length} ${data.noun}s, Spearman’s ρ = ${Number.isNaN(rho) ? "–" : rho.toFixed(2).replace("-", "−")}: ${counts.join(", ")}.`),
    ...(here === there ? [] : [make("p", { class: "legend" }, `The two are values of different kinds (${here}; ${there}): compare ranks and signs, not sizes.`)]),
  ];
}

function keys() {
  return make("ul", { class: "keys" }, ...Object.values(PAIRS).map(([kind, mark, words]) => make("li", {},
    make("svg", { viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" }, make("g", { class: `pair ${kind}` }, make("path", { d: MARKS[mark] }))), ` ${words}`)));
}

function drawCompare() {
  const [one, other] = [sideOf("a"), sideOf("b")];
  const pairs = pairsOf(one, other);
  const runs = data.runs.length > 1 ? [one, other].map(({ run }) => make("li", {}, make("b", {}, make("bdi", {}, run.name)), `: ${run.about}`)) : [];
  $("compare-body").replaceChildren(...(pairs.length < 2 ? [make("p", {}, `The two have no ${data.noun}s in common.`)]
    : [...summary(pairs, one, other), make("div", { class: "side-by-side" }, make("figure", {}, scatter(pairs, one, other), keys()),
      make("div", { class: "beside" }, make("h3", {}, "Changed decisions"), changeTable(pairs, one, other)))]),
  ...(runs.length ? [make("ul", { class: "verdict" }, ...runs)] : []));
}

// The languages of the chosen run; the language stays the same if the run has it.
function fillLanguages(name, wanted) {
  const menu = $(`compare-language-${name}`);
  const languages = languagesOf(data.runs[$(`compare-run-${name}`)?.value ?? 0]);
  const code = wanted ?? menu.value;
  menu.replaceChildren(...languages.map((language) => make("option", { value: language.code }, language.name)));
  if (languages.some((language) => language.code === code)) menu.value = code;
}

function compareLink() {
  const [one, other] = [sideOf("a"), sideOf("b")];
  const parts = { compare: one.run.name, language: one.language.code, with: other.run.name, other: other.language.code };
  return `#${Object.entries(parts).map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}`;
}

function readCompare() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.get("compare") === null) return;
  for (const [name, run, language] of [["a", "compare", "language"], ["b", "with", "other"]]) {
    const place = data.runs.findIndex((each) => each.name === asked.get(run));
    if (place >= 0 && $(`compare-run-${name}`)) $(`compare-run-${name}`).value = place;
    fillLanguages(name, asked.get(language) ?? undefined);
  }
  drawCompare();
  $("compare").scrollIntoView();
}

if (data && $("compare-body")) {
  for (const [place, name] of ["a", "b"].entries()) {
    const runs = $(`compare-run-${name}`);
    runs?.append(...data.runs.map((run, number) => make("option", { value: number }, run.name)));
    if (runs) runs.value = Math.min(place, data.runs.length - 1);
    fillLanguages(name, $("compare-language-a").value || undefined);
    if (data.runs.length < 2) $(`compare-language-${name}`).selectedIndex = place;
    runs?.addEventListener("change", () => fillLanguages(name));
    for (const menu of [runs, $(`compare-language-${name}`)]) {
      menu?.addEventListener("change", () => {
        drawCompare();
        history.replaceState(null, "", compareLink());
      });
    }
  }
  // Drawn when it comes near the screen, and before printing.
  const near = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    drawCompare();
  }, { rootMargin: "300px" });
  near.observe($("compare-body"));
  addEventListener("beforeprint", () => $("compare-body").firstChild ?? drawCompare());
  addEventListener("hashchange", readCompare);
  readCompare();
}
