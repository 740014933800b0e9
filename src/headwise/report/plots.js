// Plots of curves: the values at a point that is chosen with the mouse, the arrow keys, or the slider of the section.
class CurvePlot {
  constructor(svg) {
    this.svg = svg;
    this.cursor = svg.querySelector(".cursor");
    this.curves = [...svg.querySelectorAll("polyline")].map((line) => ({ name: line.dataset.name, points: [...line.points] }));
    this.stops = [...new Set(this.curves.flatMap((curve) => curve.points.map((point) => point.x)))].sort((a, b) => a - b);
    this.matrix = svg.querySelector("polyline").parentNode.transform.baseVal.consolidate().matrix;
    this.at = 0;
  }

  // The value of a curve; between its points, on the straight line between them. Undefined outside of the curve.
  static valueAt({ points }, x) {
    const next = points.findIndex((point) => point.x >= x);
    if (next < 0 || (next === 0 && points[0].x > x)) return undefined;
    const [one, other] = [points[Math.max(next - 1, 0)], points[next]];
    return other.x === x ? other.y : one.y + (other.y - one.y) * (x - one.x) / (other.x - one.x);
  }

  // Move the line that marks a point; null hides it.
  mark(x) {
    const place = x === null ? -9 : this.matrix.a * x + this.matrix.e;
    this.cursor.setAttribute("x1", place);
    this.cursor.setAttribute("x2", place);
  }

  read() {
    const x = this.stops[this.at];
    this.mark(x);
    const found = this.curves.flatMap((curve) => curve.points.filter((point) => point.x === x)
      .map((point) => `${curve.name}: ${point.y.toFixed(1)}`));
    const text = [`${x} ${this.svg.dataset.noun}`, ...found].join("\n");
    this.svg.setAttribute("aria-valuenow", x);
    this.svg.setAttribute("aria-valuetext", text);
    showTip(text, this.cursor);
  }

  listen(leave) {
    const { svg, stops, matrix } = this;
    svg.setAttribute("role", "slider");
    svg.setAttribute("aria-valuemin", stops[0]);
    svg.setAttribute("aria-valuemax", stops.at(-1));
    svg.setAttribute("aria-valuenow", stops[0]);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width - matrix.e) / matrix.a;
      this.at = stops.reduce((best, stop, place) => (Math.abs(stop - x) < Math.abs(stops[best] - x) ? place : best), 0);
      this.read();
    });
    svg.addEventListener("focus", () => this.read());
    for (const name of ["pointerleave", "blur"]) {
      svg.addEventListener(name, () => {
        hideTip();
        leave();
      });
    }
    svg.addEventListener("keydown", (event) => {
      const next = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: stops.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      this.at = Math.min(Math.max(next, 0), stops.length - 1);
      this.read();
    });
  }
}

// The slider of a section: one number of removed heads for all of its plots, with the values of every curve.
class CurveSlider {
  constructor(bar, plots) {
    Object.assign(this, { bar, plots, section: bar.closest("section").id, at: null });
    this.stops = [...new Set(plots.flatMap((plot) => plot.stops))].sort((a, b) => a - b);
    this.input = make("input", { type: "range", min: 0, max: this.stops.length - 1, value: 0, autocomplete: "off" });
    this.output = make("output", {}, "move it to read all curves");
    bar.append(make("label", {}, `${bar.dataset.noun[0].toUpperCase()}${bar.dataset.noun.slice(1)} `, this.input), this.output);
    for (const plot of plots) {
      plot.readout = make("ul", { class: "readout" });
      plot.svg.after(plot.readout);
    }
    this.input.addEventListener("input", () => this.show(this.stops[this.input.value]));
    // The link of the page changes when the slider is released, not at every step.
    this.input.addEventListener("change", () => history.replaceState(null, "", `#curves=${this.section}&removed=${this.at}`));
  }

  show(x) {
    this.at = x;
    this.input.value = this.stops.indexOf(x);
    this.input.setAttribute("aria-valuetext", `${x} ${this.bar.dataset.noun}`);
    this.output.textContent = `${x} of ${this.stops.at(-1)}`;
    for (const plot of this.plots) {
      plot.mark(x);
      plot.readout.replaceChildren(...plot.curves.map((curve) => {
        const [value, first] = [CurvePlot.valueAt(curve, x), curve.points[0]?.y];
        const text = value === undefined ? "–" : `${value.toFixed(1)} (${signed(value - first, 1)})`;
        return make("li", {}, make("bdi", {}, curve.name), " ", make("b", {}, text));
      }));
    }
  }

  // The nearest point that was measured.
  nearest(x) {
    return this.stops.reduce((best, stop) => (Math.abs(stop - x) < Math.abs(best - x) ? stop : best), this.stops[0]);
  }
}

const sliders = [];
for (const group of document.querySelectorAll(".plots")) {
  const plots = [...group.querySelectorAll(".plot")].filter((svg) => svg.querySelector("polyline")).map((svg) => new CurvePlot(svg));
  const bar = group.parentNode.querySelector(".slider");
  if (!plots.length) continue;
  const slider = bar && new CurveSlider(bar, plots);
  if (slider) sliders.push(slider);
  for (const plot of plots) plot.listen(() => plot.mark(slider ? slider.at : null));
}

// Read a link such as #curves=iterative-pruning&removed=36.
function readCurves() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const slider = sliders.find((each) => each.section === asked.get("curves"));
  const x = Number(asked.get("removed") ?? NaN);
  if (!slider || !Number.isFinite(x)) return;
  slider.show(slider.nearest(x));
  slider.bar.closest("section").scrollIntoView();
}
addEventListener("hashchange", readCurves);
addEventListener("load", readCurves); // after the maps above have their size
