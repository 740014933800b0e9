// Attention of one head at a time, on all sentences side by side: lines, strongest keys, or a matrix.
const data = JSON.parse($("data").textContent);
const LINE = 21; // pixels per token
const GAP = 130; // pixels between the two columns of tokens
const state = { head: 0, view: "lines", merged: false, specials: true, chosen: null };

// Groups of tokens that are shown as one: words, or single tokens; without special tokens if these are hidden.
function groupsOf(row) {
  const groups = [];
  row.tokens.forEach((text, place) => {
    const last = groups.at(-1);
    if (state.merged && last && last.word === row.words[place]) {
      last.text += text.replace(/^##|^[▁Ġ]/, "");
      last.places.push(place);
    } else groups.push({ text: state.merged ? text.replace(/^[▁Ġ](?=.)/, "") : text, word: row.words[place], places: [place], special: row.special[place] });
  });
  return groups.filter((group) => state.specials || !group.special);
}

// Weights between groups: the mean over the tokens of a query, the sum over the tokens of a key.
function weightsOf(sentence, queries, keys, width) {
  const flat = sentence.weights[state.head];
  return queries.map((query) => keys.map((key) => {
    let sum = 0;
    for (const q of query.places) for (const k of key.places) sum += flat[q * width + k];
    return sum / query.places.length / 1000;
  }));
}

const measure = document.createElement("canvas").getContext("2d");
measure.font = "13px system-ui, sans-serif";
const widest = (groups) => Math.ceil(Math.max(20, ...groups.map((group) => measure.measureText(group.text).width)) * 1.08) + 8;
const percent = (weight) => `${(100 * weight).toFixed(1)}%`;

function showTip(text, event) {
  $("tip").textContent = text;
  $("tip").hidden = false;
  $("tip").style.left = `${Math.min(event.clientX + 12, innerWidth - $("tip").offsetWidth - 4)}px`;
  $("tip").style.top = `${Math.min(event.clientY + 12, innerHeight - $("tip").offsetHeight - 4)}px`;
}

function listen(element, tell) {
  element.addEventListener("pointermove", (event) => showTip(tell(), event));
  element.addEventListener("pointerleave", () => { $("tip").hidden = true; });
}

function words(group, attributes) {
  return make("text", { ...attributes, class: group.special ? "special" : "" }, group.text);
}

// Two columns of tokens with lines between them; `strongest` keeps one line per query.
function drawLines(queries, keys, weights, strongest) {
  const [left, right] = [widest(queries), widest(keys)];
  const height = LINE * Math.max(queries.length, keys.length);
  const svg = make("svg", { width: left + GAP + right, height, role: "img", "aria-label": "lines between tokens" });
  const links = make("g");
  const y = (place) => place * LINE + LINE / 2;
  const lines = [];
  weights.forEach((row, q) => {
    const top = row.indexOf(Math.max(...row));
    row.forEach((weight, k) => {
      if (strongest ? k !== top : weight < .005) return;
      const opacity = strongest ? .85 : Math.min(1, .04 + .96 * weight);
      const line = make("line", { x1: left, x2: left + GAP, y1: y(q), y2: y(k), class: "link", "stroke-width": strongest ? .8 + 3.2 * weight : 1.8, "stroke-opacity": opacity });
      lines.push({ line, q, k, weight });
      links.append(line);
    });
  });
  let pinned = null;
  const boxes = [];
  const focus = (side, place) => {
    for (const each of lines) each.line.toggleAttribute("hidden", side !== null && each[side] !== place);
    for (const box of boxes) box.element.classList.toggle("chosen", box.side === side && box.place === place);
  };
  const column = (groups, side, x, anchor, width) => groups.forEach((group, place) => {
    const box = make("rect", { x: side === "q" ? 0 : left + GAP, y: place * LINE, width, height: LINE, class: "token", tabindex: "0" });
    boxes.push({ element: box, side, place });
    const tell = () => lines.filter((each) => each[side] === place).sort((a, b) => b.weight - a.weight).slice(0, 6)
      .map((each) => `${percent(each.weight)} ${side === "q" ? "→" : "←"} ${(side === "q" ? keys[each.k] : queries[each.q]).text}`).join("\n");
    listen(box, () => `${group.text}\n${tell()}`);
    box.addEventListener("pointerenter", () => focus(side, place));
    box.addEventListener("pointerleave", () => focus(...(pinned ?? [null, null])));
    box.addEventListener("focus", () => focus(side, place));
    box.addEventListener("blur", () => focus(...(pinned ?? [null, null])));
    box.addEventListener("click", () => {
      pinned = pinned && pinned[0] === side && pinned[1] === place ? null : [side, place];
      focus(...(pinned ?? [null, null]));
    });
    svg.append(box, words(group, { x, y: y(place) + 4.5, "text-anchor": anchor, "pointer-events": "none" }));
  });
  svg.append(links);
  column(queries, "q", left - 6, "end", left);
  column(keys, "k", left + GAP + 6, "start", right);
  return svg;
}

// A matrix with queries as rows and keys as columns; the darker a cell, the larger the weight.
function drawMatrix(queries, keys, weights) {
  const [left, top, size] = [widest(queries), widest(keys), 18];
  const svg = make("svg", { width: left + keys.length * size + 8, height: top + queries.length * size + 4, role: "img", "aria-label": "matrix of weights, queries as rows, keys as columns" });
  queries.forEach((group, q) => svg.append(words(group, { x: left - 6, y: top + q * size + 13, "text-anchor": "end" })));
  keys.forEach((group, k) => svg.append(words(group, { transform: `translate(${left + k * size + 13} ${top - 6}) rotate(-90)` })));
  weights.forEach((row, q) => row.forEach((weight, k) => {
    if (weight >= .001) svg.append(make("rect", { x: left + k * size, y: top + q * size, width: size, height: size, class: "cell", "fill-opacity": Math.min(1, weight) }));
  }));
  const frame = make("rect", { x: left, y: top, width: keys.length * size, height: queries.length * size, class: "grid", "pointer-events": "all" });
  frame.addEventListener("pointermove", (event) => {
    const box = frame.getBoundingClientRect();
    const q = Math.min(Math.floor((event.clientY - box.top) / size), queries.length - 1);
    const k = Math.min(Math.floor((event.clientX - box.left) / size), keys.length - 1);
    if (q >= 0 && k >= 0) showTip(`${queries[q].text} → ${keys[k].text}\n${percent(weights[q][k])}`, event);
  });
  frame.addEventListener("pointerleave", () => { $("tip").hidden = true; });
  svg.append(frame);
  return svg;
}

function draw() {
  const head = data.heads[state.head];
  $("tip").hidden = true;
  $("gate").textContent = head.gate === 1 ? "" : head.gate === 0 ? "removed by the mask" : `gate ${head.gate}`;
  $("sentences").replaceChildren(...data.sentences.map((sentence) => {
    const [from, to] = head.sides;
    const [queries, keys] = [groupsOf(sentence[from]), groupsOf(sentence[to])];
    const weights = weightsOf(sentence, queries, keys, sentence[to].tokens.length);
    const drawn = !queries.length || !keys.length ? "no tokens"
      : state.view === "matrix" ? drawMatrix(queries, keys, weights) : drawLines(queries, keys, weights, state.view === "strongest");
    const caption = sentence.label ? [make("figcaption", {}, make("bdi", {}, sentence.label))] : [];
    return make("figure", {}, ...caption, make("div", { class: "frame" }, drawn));
  }));
}

function select(id, title, options, change) {
  const menu = make("select", { id, autocomplete: "off" }, ...options.map(([value, text]) => make("option", { value }, text)));
  menu.addEventListener("change", () => { change(menu.value); draw(); });
  return make("label", {}, `${title} `, menu);
}

function box(id, title, checked, change) {
  const input = make("input", { type: "checkbox", id, checked, autocomplete: "off" });
  input.addEventListener("change", () => { change(input.checked); draw(); });
  return make("label", {}, input, ` ${title}`);
}

function step(by) {
  state.head = (state.head + by + data.heads.length) % data.heads.length;
  $("head").value = state.head;
  draw();
}

$("bar").append(
  select("head", "Head", data.heads.map((head, place) => [place, head.name]), (value) => { state.head = Number(value); }),
  make("span", { id: "gate", class: "gate" }),
  select("view", "View", [["lines", "lines"], ["strongest", "strongest key"], ["matrix", "matrix"]], (value) => { state.view = value; }),
  box("merged", "merge sub-words", false, (value) => { state.merged = value; }),
  box("specials", "special tokens", true, (value) => { state.specials = value; }),
);
addEventListener("keydown", (event) => {
  if (event.target.matches("select, input")) return;
  if (event.key === "ArrowLeft") step(-1);
  if (event.key === "ArrowRight") step(1);
});
draw();
