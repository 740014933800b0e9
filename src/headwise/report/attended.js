// The attention of one head on sentences of several languages, on the page of the head.
const LOOKS = { lines: "lines", strongest: "strongest key", matrix: "matrix" };
const SHOWN = 4; // languages that are shown at first
const look = { view: "lines", merged: false, specials: true, sentence: 0, codes: null, member: 0 };
const atPointer = {
  show(text, event) { showTip(text, () => new DOMRect(event.clientX, event.clientY - 6, 1, 12)); },
  hide: hideTip,
};

// Weights are stored as the square root in steps of 1/255, one byte each.
function unpacked(text) {
  return Array.from(atob(text), (letter) => (letter.charCodeAt(0) / 255) ** 2);
}

// The heads that a player consists of: itself, or those that share a key-value head.
function membersOf(name) {
  for (const shape of data.shapes) {
    const place = shape.players.indexOf(name);
    if (place >= 0) return shape.members?.[place] ?? [name];
  }
  return [name];
}

function attentionPart(name, code) {
  if (!data.attention) return null;
  const title = make("h3", {}, "Attention");
  const members = membersOf(name).filter((member) => data.attention.heads.some((head) => head.name === member));
  if (!members.length) {
    const text = `The report has the attention of ${data.attention.heads.length} heads, those with the lowest and the highest values. This is not one of them.`;
    return make("section", {}, title, make("p", { class: "legend" }, text));
  }
  const codes = [...new Set(data.attention.sentences.map((sentence) => sentence.language))];
  if (!look.codes) look.codes = new Set([code, ...codes].filter((each) => codes.includes(each)).slice(0, SHOWN + codes.includes(code)));
  const drawn = make("div", { class: "attention" });
  const fill = () => drawn.replaceChildren(...codes.filter((each) => look.codes.has(each)).map((each) => attentionFigure(each, members)));
  fill();
  return make("section", {}, title, attentionBar(codes, members, name, code, fill), drawn);
}

function attentionFigure(code, members) {
  const place = data.attention.heads.findIndex((head) => head.name === members[Math.min(look.member, members.length - 1)]);
  const found = data.attention.sentences.filter((sentence) => sentence.language === code);
  const sentence = found[Math.min(look.sentence, found.length - 1)];
  const [from, to] = data.attention.heads[place].sides;
  const drawn = drawAttention(sentence[from], sentence[to], unpacked(sentence.weights[place]), look, atPointer);
  const language = data.languages.find((each) => each.code === code) ?? { code, name: code };
  return make("figure", { "data-code": code }, make("figcaption", {}, make("strong", {}, ...label(language))), make("div", { class: "frame", tabindex: "0" }, drawn));
}

// What is shown: view, sentence, sub-words, special tokens, languages.
function attentionBar(codes, members, name, code, fill) {
  const menu = (title, id, options, value, change) => {
    const found = make("select", { id, autocomplete: "off" }, ...options.map(([key, text]) => make("option", { value: key, selected: String(key) === String(value) }, text)));
    found.addEventListener("change", () => { change(found.value); fill(); });
    return make("label", {}, `${title} `, found);
  };
  const box = (text, checked, change) => {
    const found = make("input", { type: "checkbox", checked, autocomplete: "off" });
    found.addEventListener("change", () => { change(found.checked); fill(); });
    return make("label", {}, found, " ", text);
  };
  const most = Math.max(...codes.map((each) => data.attention.sentences.filter((sentence) => sentence.language === each).length));
  const numbers = Array.from({ length: most }, (_, place) => [place, place + 1]);
  const change = (view) => {
    look.view = view;
    history.replaceState(null, "", linkTo(name, code));
  };
  const languages = codes.map((each) => box(make("bdi", {}, data.languages.find((language) => language.code === each)?.name ?? each), look.codes.has(each),
    (on) => (on ? look.codes.add(each) : look.codes.delete(each))));
  return make("div", {},
    make("div", { class: "choices" }, menu("View", "look", Object.entries(LOOKS), look.view, change),
      members.length > 1 ? menu("Head", "look-head", members.map((each, place) => [place, each]), look.member, (value) => { look.member = Number(value); }) : null,
      most > 1 ? menu("Sentence", "look-sentence", numbers, look.sentence, (value) => { look.sentence = Number(value); }) : null,
      box("merge sub-words", look.merged, (on) => { look.merged = on; }), box("special tokens", look.specials, (on) => { look.specials = on; })),
    codes.length > 1 ? make("div", { class: "choices look-languages", role: "group", "aria-label": "Languages" }, ...languages) : null);
}
