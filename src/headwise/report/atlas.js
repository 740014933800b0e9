// The atlas: one map of heads per language, drawn from the data when it comes into view.
const data = JSON.parse($("data").textContent);
const STEPS = 16;
const DECISIONS = { "-": "harmful", "+": "helpful", "?": "undecided" };
const CELL = { widest: 21, narrowest: 11, width: 400, letters: 10.5 };

// What is known of one player in one language; the languages of other runs have decimals of their own.
function scoreOf(language, place, decimals = data.decimals) {
  const unit = 10 ** -decimals;
  const number = (each) => (each === null ? NaN : Number(each) * unit);
  const value = number(language.value[place]);
  const stderr = number(language.stderr[place]);
  return {
    value, stderr, low: value - 1.959964 * stderr, high: value + 1.959964 * stderr, count: language.count?.[place],
    decision: DECISIONS[language.decision[place]],
  };
}

// The step of a value on the colour scale, from −16 to 16.
function level(value, limit) {
  if (Number.isNaN(value)) return null;
  const share = limit > 0 && Number.isFinite(value) ? value / limit : Math.sign(value);
  return Math.round(STEPS * Math.min(Math.max(share, -1), 1));
}

function describe(language, place) {
  const shape = data.shapes[language.shape];
  const found = scoreOf(language, place);
  const lines = [`${shape.players[place]} · ${language.name}`];
  if (Number.isNaN(found.value)) return [...lines, "no value"].join("\n");
  const decimals = data.decimals - 1;
  const sure = !Number.isNaN(found.stderr);
  lines.push(signed(found.value, decimals) + (sure ? ` ± ${found.stderr.toFixed(decimals)}` : ""));
  if (sure) lines.push(`95%: ${signed(found.low, decimals)} to ${signed(found.high, decimals)}`);
  lines.push(`${data.signed ? `${found.decision}, ` : ""}${found.count.toLocaleString("en")} ${found.count === 1 ? "sample" : "samples"}`);
  const roles = rolesOf(language, place).map((role) => role.name);
  if (roles.length) lines.push(`roles: ${[...new Set(roles)].join(", ")}`);
  const masks = masksOf(language, place);
  if (masks.length) lines.push(`removed by: ${masks.join(", ")}`);
  return lines.join("\n");
}

function rolesOf(language, place) {
  return Object.entries(data.roles).flatMap(([name, languages]) => (languages[language.code] ?? [])
    .filter((row) => row[0] === place).map(([, statistic, value, sure]) => ({ name, statistic, value, sure })));
}

function masksOf(language, place) {
  return Object.keys(data.masks).filter((name) => (data.masks[name][language.code] ?? []).includes(place));
}

// The colour of every player of a language in the chosen view: a CSS class, and the mark on top of it.
function painter(language, view) {
  const [kind, name] = [view.split(":")[0], view.slice(view.indexOf(":") + 1)];
  if (kind === "mask") {
    const off = new Set(data.masks[name]?.[language.code]);
    return (place) => [off.has(place) ? "taken" : "kept", ""];
  }
  if (kind === "roles") {
    const found = new Map();
    roleNames.forEach((role, number) => {
      for (const [place, , , sure] of data.roles[role][language.code] ?? []) {
        const known = found.get(place);
        if (!known || sure > known.sure) found.set(place, { number, sure });
      }
    });
    return (place) => [found.has(place) ? roleClass(found.get(place).number, found.get(place).sure) : "kept", ""];
  }
  if (kind === "role") {
    const found = new Map();
    for (const [place, , , sure] of data.roles[name]?.[language.code] ?? []) found.set(place, found.get(place) || sure);
    return (place) => [found.has(place) ? (found.get(place) ? "taken" : "perhaps") : "kept", ""];
  }
  const marks = { "-": "minus", "+": "", "?": data.signed ? "hatched" : "" }; // values without a sign decide nothing
  const limit = $("own-scale")?.checked ? language.limit : data.limit;
  return (place) => {
    const step = level(scoreOf(language, place).value, limit);
    const letter = language.decision[place];
    if (step === null) return ["none", ""];
    return [kind === "value" ? `s${step}` : { "-": "worse", "+": "better", "?": "kept" }[letter], marks[letter]];
  };
}

// All roles, those of most heads first; the first ones have colours of their own in the view of all roles.
const ROLE_COLOURS = 7;
const headsWith = (role) => new Set(Object.values(data.roles[role]).flatMap((rows) => rows.map((row) => row[0]))).size;
const roleNames = data ? Object.keys(data.roles).sort((a, b) => headsWith(b) - headsWith(a)) : [];

function roleClass(number, sure) {
  const colour = number < ROLE_COLOURS ? `role-fill l${number}` : "role-fill role-other";
  return sure ? colour : `${colour} role-perhaps`;
}

const OUTLINES = { cell: [0, 0, "h.94v.94h-.94z"], hatched: [0, 0, "h.94v.94h-.94z"], minus: [.27, .41, "h.4v.12h-.4z"], gone: [.37, .37, "h.2v.2h-.2z"] };

// One path per colour instead of one element per cell: thousands of cells stay fast.
function paths(places, paint) {
  const found = new Map();
  const add = (name, outline, row, column) => {
    const [right, down, shape] = OUTLINES[outline];
    found.set(name, `${found.get(name) ?? ""}M${column + right} ${row + down}${shape}`);
  };
  for (const [row, column, place] of places) add(paint(place)[0], "cell", row, column);
  for (const [row, column, place] of places) if (paint(place)[1]) add(paint(place)[1], paint(place)[1], row, column);
  return [...found].map(([name, d]) => make("path", { d, class: name }));
}

class HeadMap {
  // The map of one stack in one language.
  constructor(language, grid) {
    Object.assign(this, { language, grid });
    this.at = new Map(grid.places.map(([row, column, place]) => [`${row} ${column}`, place]));
    const cell = Math.max(CELL.narrowest, Math.min(CELL.widest, CELL.width / grid.columns));
    this.font = CELL.letters / cell;
    const longest = Math.max(...grid.rows.map((name) => name.length));
    this.margin = (longest + 1) * .6 * this.font + (grid.rowTitle ? 1.2 * this.font : 0);
    const [width, height] = [this.margin + grid.columns, grid.rows.length + 2.5 * this.font];
    const name = [language.name, grid.title].filter(Boolean).join(", ");
    this.svg = make("svg", {
      viewBox: `${-this.margin} 0 ${width} ${height}`, width: Math.round(width * cell), height: Math.round(height * cell),
      "font-size": this.font, tabindex: "0", role: "application", "aria-roledescription": "map",
      "aria-label": `${name}: ${grid.places.length} ${data.noun}s. Arrow keys move, Enter opens.`,
    });
    this.cursor = null;
    this.listen();
  }

  draw(view) {
    const { grid } = this;
    const gaps = [];
    for (let row = 0; row < grid.rows.length; row += 1) {
      for (let column = 0; column < grid.columns; column += 1) if (!this.at.has(`${row} ${column}`)) gaps.push([row, column, -1]);
    }
    const absent = gaps.map(([row, column]) => `M${column + .37} ${row + .37}${OUTLINES.gone[2]}`).join("");
    this.frame = make("rect", { class: "cursor-cell", width: .94, height: .94, hidden: true });
    this.svg.replaceChildren(
      ...this.labels(), ...paths(grid.places, painter(this.language, view)),
      ...(absent ? [make("path", { d: absent, class: "gone" })] : []), this.frame,
    );
    if (this.cursor) this.point(...this.cursor);
  }

  labels() {
    const { grid, font, margin } = this;
    const [step, found] = [Math.ceil(1.5 * font), []];
    const text = (words, attributes) => found.push(make("text", attributes, words));
    for (let row = 0; row < grid.rows.length; row += grid.rowTitle ? step : 1) {
      text(grid.rows[row], { x: -.4 * font, y: row + .47 + .35 * font, "text-anchor": "end" });
    }
    for (let column = 0; column < grid.columns; column += step) {
      text(String(column), { x: column + .47, y: grid.rows.length + font, "text-anchor": "middle" });
    }
    text(grid.columnTitle, { x: grid.columns / 2, y: grid.rows.length + 2.2 * font, "text-anchor": "middle" });
    if (grid.rowTitle) {
      const place = `rotate(-90) translate(${-grid.rows.length / 2} ${.8 * font - margin})`;
      text(grid.rowTitle, { transform: place, "text-anchor": "middle" });
    }
    return found;
  }

  // The row and column under the pointer, if there is a player.
  under(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    const found = [Math.floor(point.y), Math.floor(point.x)];
    return this.at.has(found.join(" ")) ? found : null;
  }

  // Frame a cell and describe it in the tip.
  point(row, column) {
    this.cursor = [row, column];
    this.frame.setAttribute("x", column);
    this.frame.setAttribute("y", row);
    this.frame.toggleAttribute("hidden", false);
  }

  tell() {
    const text = describe(this.language, this.at.get(this.cursor.join(" ")));
    showTip(text, this.frame);
    return text;
  }

  leave() {
    hideTip();
    this.cursor = null;
    this.frame?.toggleAttribute("hidden", true);
  }

  open() {
    openHead(data.shapes[this.language.shape].players[this.at.get(this.cursor.join(" "))], this.language.code);
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointermove", (event) => {
      const found = this.under(event);
      if (!found) this.leave();
      else if (String(found) !== String(this.cursor)) {
        this.point(...found);
        this.tell();
      }
    });
    svg.addEventListener("pointerleave", () => this.leave());
    svg.addEventListener("blur", () => this.leave());
    svg.addEventListener("focus", () => {
      if (!this.frame) draw(this.svg);
      if (svg.matches(":focus-visible") && !this.cursor) {
        this.point(...this.grid.places[0].slice(0, 2));
        $("live").textContent = this.tell();
      }
    });
    svg.addEventListener("click", (event) => {
      const found = this.under(event);
      if (!found) return;
      this.point(...found);
      this.open();
    });
    svg.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.key === "Enter" && this.cursor) {
      event.preventDefault();
      this.open();
      return;
    }
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    let [row, column] = this.cursor ?? this.grid.places[0];
    do { row += step[0]; column += step[1]; } // skip heads that are absent
    while (row >= 0 && row < this.grid.rows.length && column >= 0 && column < this.grid.columns && !this.at.has(`${row} ${column}`));
    if (this.at.has(`${row} ${column}`)) this.point(row, column);
    $("live").textContent = this.tell();
  }
}

// Maps are drawn when they come near the screen.
const maps = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
}, { rootMargin: "300px" });

function draw(svg) {
  watcher.unobserve(svg);
  maps.get(svg).draw($("view").value);
}

function redraw() {
  const view = $("view").value;
  const kind = view.split(":")[0];
  const section = $("maps").closest("section");
  section.dataset.view = kind;
  section.classList.toggle("own", Boolean($("own-scale")?.checked));
  for (const [svg, map] of maps) {
    if (map.frame) { // drawn before
      map.frame = null;
      svg.replaceChildren();
      watcher.observe(svg);
    }
  }
  for (const [language, caption] of captions) caption.textContent = countOf(language, view);
  $("overview").replaceChildren(...overviewOf(view));
}

function countOf(language, view) {
  const [kind, name] = [view.split(":")[0], view.slice(view.indexOf(":") + 1)];
  const players = data.shapes[language.shape].players.length;
  if (kind === "mask") return `${(data.masks[name][language.code] ?? []).length} of ${players} removed`;
  if (kind === "roles") return `${new Set(roleNames.flatMap((role) => (data.roles[role][language.code] ?? []).map((row) => row[0]))).size} of ${players} with a role`;
  if (kind === "role") return `${new Set((data.roles[name][language.code] ?? []).map((row) => row[0])).size} of ${players}`;
  if (!data.signed) return `${players} ${data.noun}s`;
  return Object.entries(DECISIONS).map(([letter, word]) => `${language.decision.split(letter).length - 1} ${word}`).join(", ");
}

function label(language) {
  const name = make("bdi", {}, language.name);
  return language.name === language.code ? [name] : [name, " ", make("code", {}, language.code)];
}

const captions = new Map();

function figureOf(language) {
  const caption = make("span");
  captions.set(language, caption);
  const own = make("span", { class: "own-only" }, `colour scale: ±${language.limit.toFixed(data.decimals - 1)}`);
  const figure = make("figure", { "data-language": language.code }, make("figcaption", {}, make("strong", {}, ...label(language)), caption, own));
  for (const grid of data.shapes[language.shape].grids) {
    const map = new HeadMap(language, grid);
    if (grid.title) figure.append(make("h3", {}, grid.title));
    figure.append(map.svg);
    maps.set(map.svg, map);
    watcher.observe(map.svg);
  }
  return figure;
}

// All heads of all languages in one picture: languages as rows, heads as columns, layers separated.
function overviewOf(view) {
  const shape = data.shapes[data.languages[0].shape];
  if (data.languages.some((language) => data.shapes[language.shape] !== shape) || data.languages.length < 2) return [];
  const starts = [];
  shape.players.forEach((name, place) => {
    const layer = name.slice(0, name.lastIndexOf("."));
    if (!place || layer !== shape.players[place - 1].slice(0, shape.players[place - 1].lastIndexOf("."))) starts.push(place);
  });
  const column = shape.players.map((_, place) => place + .6 * (starts.findLastIndex((start) => start <= place)));
  const width = column.at(-1) + 1;
  const rows = data.languages.flatMap((language) => {
    const paint = painter(language, view);
    const strips = new Map();
    column.forEach((x, place) => {
      const [name] = paint(place);
      strips.set(name, `${strips.get(name) ?? ""}M${x} 0h1v1h-1z`);
    });
    const svg = make("svg", { viewBox: `0 0 ${width} 1`, preserveAspectRatio: "none", "aria-hidden": "true", class: "strip" },
      ...[...strips].map(([name, d]) => make("path", { d, class: name })));
    const under = (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * width;
      return Math.max(column.findLastIndex((start) => start <= x), 0);
    };
    svg.addEventListener("pointermove", (event) => {
      showTip(describe(language, under(event)), () => new DOMRect(event.clientX, svg.getBoundingClientRect().top, 1, 12));
    });
    svg.addEventListener("pointerleave", hideTip);
    svg.addEventListener("click", (event) => openHead(shape.players[under(event)], language.code));
    return [make("div", { class: "gain-label" }, ...label(language)), svg];
  });
  const about = `one row per language, one column per ${data.noun}, grouped by layer`;
  return [make("figure", {},
    make("figcaption", {}, make("strong", {}, `All ${data.noun}s in all languages`), make("span", { class: "about-strips" }, about)),
    make("div", { class: "strips" }, ...rows))];
}

// The same picture of the values on the opening screen; its rows get lower the more languages there are.
function drawGlance() {
  const glance = $("glance");
  glance.replaceChildren(...overviewOf("value"));
  const about = glance.querySelector(".about-strips");
  if (!about) return;
  about.textContent = `${data.signed ? "orange harmful, blue helpful" : "darker: higher value"}; one row per language, one column per ${data.noun}`;
  glance.style.setProperty("--strip", `${Math.max(3, Math.min(24, Math.floor(250 / data.languages.length) - 1))}px`);
  glance.classList.toggle("dense", data.languages.length > 18);
}

// The colours of the roles, in the legend.
function roleLegend() {
  const shown = roleNames.slice(0, ROLE_COLOURS).map((name, number) => [name, number]);
  if (roleNames.length > ROLE_COLOURS) shown.push(["another role", ROLE_COLOURS]);
  $("role-legend")?.append(...shown.map(([name, number]) => make("span", { class: "swatch" },
    make("svg", { viewBox: "0 0 .94 .94", width: 16, height: 16, "aria-hidden": "true" }, make("rect", { width: .94, height: .94, class: roleClass(number, 1) })),
    ` ${name}`)));
}

if (data) {
  roleLegend();
  $("maps").append(...data.languages.map(figureOf));
  redraw();
  new IntersectionObserver((entries, watching) => { // a link to another part of the page, or a phone, does not need it
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watching.disconnect();
    drawGlance();
  }).observe($("glance"));
  $("view").addEventListener("change", redraw);
  $("own-scale")?.addEventListener("change", redraw);
  $("find-language")?.addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const figure of $("maps").children) {
      const language = data.languages.find((each) => each.code === figure.dataset.language);
      figure.hidden = !`${language.name} ${language.code}`.toLowerCase().includes(wanted);
    }
  });
  addEventListener("beforeprint", () => {
    for (const [svg, map] of maps) if (!map.frame) draw(svg);
  });
}
