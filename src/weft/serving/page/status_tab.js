// The tab "Status": throughput, queue and latency, from `GET /metrics`, every two seconds while it is visible.

import { Chart } from "./chart.js";
import { byId, decimal, duration, el, percent, whole } from "./dom.js";
import { buckets, byLabel, parseMetrics, quantile, total } from "./prometheus.js";
import { call } from "./server.js";

const EVERY = 2; // seconds between measurements
const POINTS = 60; // two minutes
const LATENCY = "weft_request_seconds";

export class StatusTab {
  constructor() {
    this.isShown = false;
    this.timer = null;
    this.history = []; // measurements of the last minute: {time, samples}
    this.charts = {
      throughput: new Chart("Throughput", (rate) => `${rate < 10 ? decimal(rate, 1) : whole(rate)} texts/s`, POINTS),
      queue: new Chart("Queue", (count) => `${whole(count)} texts`, POINTS),
      latency: new Chart("Latency, mean", duration, POINTS),
      rows: new Chart("Batch size, mean", (rows) => `${decimal(rows, 1)} rows`, POINTS),
    };
    byId("charts").append(...Object.values(this.charts).map((chart) => chart.element));
    document.addEventListener("visibilitychange", () => this.update());
  }

  /** Starts or stops measuring. */
  watch(isShown) {
    this.isShown = isShown;
    this.update();
  }

  update() {
    const isWanted = this.isShown && !document.hidden;
    if (isWanted && this.timer === null) {
      this.timer = setInterval(() => this.measure(), 1000 * EVERY);
      this.measure();
    } else if (!isWanted && this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
      this.history = []; // a rate over a gap would be wrong
    }
  }

  async measure() {
    let samples;
    try {
      samples = parseMetrics(await call("metrics"));
    } catch (wrong) {
      byId("status-error").textContent = `The status cannot be read: ${wrong.message}`;
      byId("status-error").hidden = false;
      return;
    }
    byId("status-error").hidden = true;
    const now = { time: performance.now() / 1000, samples };
    const before = this.history.at(-1);
    this.history = [...this.history, now].slice(-Math.ceil(60 / EVERY) - 1);
    this.draw(before, now);
    byId("by-task").replaceChildren(taskTable(this.history[0], now));
  }

  draw(before, { time, samples }) {
    const change = (name) => total(samples, name) - total(before.samples, name);
    const mean = (name) => (before && change(`${name}_count`) > 0 ? change(`${name}_sum`) / change(`${name}_count`) : null);
    const positions = byLabel(samples, "weft_batch_positions_total", "kind");
    const padding = positions.get("padding") ?? 0;
    const every = padding + (positions.get("token") ?? 0);
    const texts = total(samples, "weft_texts_total");
    const p95 = quantile(buckets(samples, LATENCY, null).get(null), 0.95);
    const rate = total(samples, "weft_rate_texts");
    const { throughput, queue, latency, rows } = this.charts;
    throughput.add(before ? change("weft_texts_total") / (time - before.time) : null, `${whole(texts)} texts in all`);
    queue.add(total(samples, "weft_queue_texts"), rate ? `busy: ${whole(rate)} texts/s` : "");
    latency.add(mean(LATENCY), p95 ? `p95 in all ${seconds(p95)}` : "");
    rows.add(mean("weft_batch_rows"), every ? `${percent(padding / every)} padding` : "");
  }
}

const seconds = ({ value, isLeast }) => (isLeast ? `> ${duration(value)}` : duration(value));

/** One row per task, with what was counted since the start and the rate of the last minute. */
function taskTable(oldest, { time, samples }) {
  const texts = byLabel(samples, "weft_texts_total", "task");
  const earlier = byLabel(oldest.samples, "weft_texts_total", "task");
  const counts = byLabel(samples, `${LATENCY}_count`, "task");
  const sums = byLabel(samples, `${LATENCY}_sum`, "task");
  const histograms = buckets(samples, LATENCY, "task");
  const names = [...new Set([...texts.keys(), ...counts.keys()])];
  if (!names.length) return el("p", { class: "muted" }, "No text was answered yet.");
  names.sort((a, b) => (texts.get(b) ?? 0) - (texts.get(a) ?? 0));
  const none = "–";
  const rows = names.map((name) => {
    const span = time - oldest.time;
    const p95 = quantile(histograms.get(name), 0.95);
    const answered = texts.get(name);
    return el("tr", {}, el("th", { scope: "row", dir: "auto" }, name), ...[
      answered === undefined ? none : whole(answered),
      answered === undefined || span <= 0 ? none : ((answered - (earlier.get(name) ?? 0)) / span).toFixed(1),
      counts.get(name) ? whole(counts.get(name)) : none,
      counts.get(name) ? duration(sums.get(name) / counts.get(name)) : none,
      p95 ? seconds(p95) : none,
    ].map((value) => el("td", { class: "number" }, value)));
  });
  const headings = ["Task", "Texts", "Texts/s", "Requests", "Latency, mean", "Latency, p95"];
  const head = headings.map((name, index) => el("th", { scope: "col", class: index ? "number" : "text" }, name));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}
