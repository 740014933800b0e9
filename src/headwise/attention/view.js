// Attention of one head at a time, on all sentences side by side: lines, strongest keys, or a matrix.
const data = JSON.parse($("data").textContent);
const state = { head: 0, view: "lines", merged: false, specials: true };
const tips = {
  show(text, event) {
    $("tip").textContent = text;
    $("tip").hidden = false;
    $("tip").style.left = `${Math.min(event.clientX + 12, innerWidth - $("tip").offsetWidth - 4)}px`;
    $("tip").style.top = `${Math.min(event.clientY + 12, innerHeight - $("tip").offsetHeight - 4)}px`;
  },
  hide() { $("tip").hidden = true; },
};

function draw() {
  const head = data.heads[state.head];
  $("tip").hidden = true;
  $("gate").textContent = head.gate === 1 ? "" : head.gate === 0 ? "removed by the mask" : `gate ${head.gate}`;
  $("sentences").replaceChildren(...data.sentences.map((sentence) => {
    const [from, to] = head.sides;
    const weights = sentence.weights[state.head].map((thousandths) => thousandths / 1000);
    const drawn = drawAttention(sentence[from], sentence[to], weights, state, tips);
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
