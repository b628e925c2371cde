// A small chart: one value over time, as a line with an area below it.

import { el, svg } from "./dom.js";

const [WIDTH, HEIGHT] = [300, 72];

export class Chart {
  /**
   * @param {string} title
   * @param {(value: number) => string} format writes a value
   * @param {number} points how many values are shown; older ones leave at the left
   */
  constructor(title, format, points) {
    Object.assign(this, { title, format, points, values: [] });
    this.now = el("p", { class: "now" }, "–");
    this.name = svg("title", {}, title);
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.most = el("span", {});
    const picture = svg("svg", { role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" },
      this.name, svg("path", { class: "base", d: `M0 ${HEIGHT - 1}H${WIDTH}` }), this.area, this.line);
    this.note = el("span", {});
    this.element = el("section", { class: "panel chart" }, el("h3", {}, title, " ", el("span", {}, "last 2 min")), this.now, picture,
      el("p", { class: "muted small ends" }, this.note, this.most));
  }

  /**
   * Adds a value.
   * @param {number|null} value null: nothing was measured; the line has a gap
   * @param {string} note a line below the chart
   */
  add(value, note = "") {
    this.values = [...this.values, value].slice(-this.points);
    const known = this.values.filter((x) => x !== null);
    const most = Math.max(...known, 0);
    this.now.textContent = value === null ? "–" : this.format(value);
    this.note.textContent = note;
    this.most.textContent = known.length ? `max ${this.format(most)}` : "";
    this.name.textContent = `${this.title}: now ${this.now.textContent}, at most ${this.format(most)} in the last ${this.values.length} measurements`;
    const runs = this.runs(most || 1);
    this.line.setAttribute("d", runs.map((run) => `M${run.map(([x, y]) => `${x} ${y}`).join("L")}${run.length === 1 ? "h2" : ""}`).join(""));
    this.area.setAttribute("d", runs.map((run) => `M${run[0][0]} ${HEIGHT}L${run.map(([x, y]) => `${x} ${y}`).join("L")}L${run.at(-1)[0]} ${HEIGHT}Z`).join(""));
  }

  /** Places of the values, in runs without a gap; the newest value is at the right. */
  runs(most) {
    const runs = [[]];
    this.values.forEach((value, index) => {
      if (value === null) {
        runs.push([]);
        return;
      }
      const x = WIDTH * (1 - (this.values.length - 1 - index) / (this.points - 1));
      runs.at(-1).push([x.toFixed(1), (HEIGHT - 2 - (HEIGHT - 6) * (value / most)).toFixed(1)]);
    });
    return runs.filter((run) => run.length);
  }
}
