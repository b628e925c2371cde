// The tab "Batch": a file of rows, the columns that a task reads, and a table of answers.

import { summary } from "./answers.js";
import { runBatch } from "./batch_run.js";
import { columnChoices } from "./columns.js";
import { byId, counted, el, percent, whole } from "./dom.js";
import { call } from "./server.js";
import { csvOf, formatOf, jsonLines, readTable, textOf } from "./tables.js";
import { errorBox, taskOptions } from "./try_tab.js";

const SHOWN = 50; // rows of the table
const ERRORS_SHOWN = 20;

export class BatchTab {
  constructor() {
    this.table = { columns: [], rows: [] };
    this.results = [];
    this.running = null; // the AbortController of a run
    const drop = byId("drop");
    byId("file").addEventListener("change", (event) => this.openFile(event.target.files[0]));
    byId("pasted").addEventListener("input", () => this.setText(byId("pasted").value, ""));
    byId("format").addEventListener("change", () => this.read());
    byId("batch-task").addEventListener("change", () => this.mapColumns());
    drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      this.openFile(event.dataTransfer.files[0]);
    });
    byId("batch-form").addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
    byId("batch-form").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!byId("run").disabled) this.run();
    });
    byId("cancel").addEventListener("click", () => this.running?.abort());
    byId("save-csv").addEventListener("click", () => save("answers.csv", "text/csv", csvOf(this.records())));
    byId("save-jsonl").addEventListener("click", () => save("answers.jsonl", "application/jsonl", jsonLines(this.records())));
  }

  offer(tasks) {
    const before = this.tasks?.[Number(byId("batch-task").value)]?.name;
    this.tasks = tasks;
    byId("batch-task").replaceChildren(...taskOptions(tasks));
    byId("batch-task").value = String(Math.max(0, tasks.findIndex((task) => task.name === before)));
    this.mapColumns();
  }

  async openFile(file) {
    if (!file) return;
    byId("pasted").value = "";
    try {
      this.setText(await textOf(file), file.name);
    } catch (wrong) {
      byId("data-note").textContent = `${file.name} cannot be read: ${wrong.message}`;
    }
  }

  setText(text, name) {
    Object.assign(this, { text, fileName: name });
    byId("file-name").textContent = name || "csv, tsv, jsonl, or txt with one text per line";
    if (!name) byId("file").value = "";
    this.read();
  }

  /** Reads the rows, and says how many there are. */
  read() {
    const text = this.text ?? "";
    const format = byId("format").value || formatOf(text, this.fileName);
    this.table = readTable(text, format);
    const { columns, rows } = this.table;
    const isEmpty = text.trim() === "";
    byId("data-note").textContent = isEmpty ? "" : `${format}: ${counted(rows.length, "row")}, ${counted(columns.length, "column")}`;
    this.mapColumns();
  }

  mapColumns() {
    const { columns, rows } = this.table;
    this.task = this.tasks?.[Number(byId("batch-task").value)];
    byId("run").disabled = this.running !== null || !rows.length || !this.task;
    this.valuesOf = this.task && rows.length ? columnChoices(byId("columns"), this.task, columns) : null;
    if (!this.valuesOf) byId("columns").replaceChildren();
    byId("run").textContent = rows.length ? `Run ${counted(rows.length, "row")}` : "Run";
  }

  async run() {
    const { task, table: { rows }, valuesOf } = this;
    const running = this.running = new AbortController();
    Object.assign(this, { ran: { task, rows }, results: new Array(rows.length).fill(null), done: 0 });
    const items = [];
    rows.forEach((row, place) => {
      if (row.error) this.keep(place, { error: row.error });
      else items.push({ place, request: { task: task.name, ...valuesOf(row.values) } });
    });
    byId("run").disabled = true;
    byId("cancel").hidden = byId("progress").hidden = false;
    byId("downloads").hidden = true;
    byId("batch-errors").replaceChildren();
    byId("batch-table").replaceChildren();
    this.showProgress();
    let stopped = null;
    try {
      await runBatch(items, {
        send: async (requests) => (await call("v1/predict", { body: { requests }, signal: running.signal })).answers,
        onAnswer: (place, result) => { this.keep(place, result); this.showProgress(); },
        onWait: (seconds) => {
          byId("batch-status").textContent = `The server is busy: ${this.progress()}, continuing in ${seconds} s`;
        },
        signal: running.signal,
      });
    } catch (wrong) {
      running.abort(); // the other portions too
      stopped = wrong;
    }
    this.running = null;
    byId("cancel").hidden = byId("progress").hidden = true;
    this.mapColumns();
    this.showResults(stopped);
  }

  keep(place, result) {
    this.results[place] = result;
    this.done += 1;
  }

  progress() {
    return `${whole(this.done)} of ${counted(this.results.length, "row")}`;
  }

  showProgress() {
    byId("progress").value = this.done / Math.max(1, this.results.length);
    byId("batch-status").textContent = this.progress();
  }

  showResults(stopped) {
    const { rows } = this.ran;
    const errors = this.results.map((result, place) => [rows[place].line, result?.error]).filter(([, error]) => error);
    const answered = this.results.filter((result) => result?.answer).length;
    const parts = [`${counted(answered, "row")} answered`];
    if (errors.length) parts.push(`${counted(errors.length, "row")} with errors`);
    if (stopped?.name === "AbortError") parts.push("cancelled");
    byId("batch-status").textContent = parts.join(", ");
    byId("downloads").hidden = answered + errors.length === 0;
    if (stopped && stopped.name !== "AbortError") byId("batch-errors").append(errorBox(stopped));
    if (errors.length) byId("batch-errors").append(errorList(errors));
    if (answered) byId("batch-table").append(this.resultTable());
  }

  /** The first rows: inputs and answer. */
  resultTable() {
    const { rows } = this.ran;
    const first = this.results.slice(0, SHOWN).map((result, place) => [rows[place], result]).filter(([, result]) => result);
    const hasShares = first.some(([, result]) => result.answer && surety(result.answer) !== "");
    const headings = ["Line", "Input", "Answer", ...(hasShares ? ["Probability"] : [])];
    const body = first.map(([row, result]) => el("tr", { class: result.error ? "bad" : null },
      el("td", { class: "number" }, row.line),
      el("td", { class: "text", dir: "auto" }, preview(row)),
      el("td", { class: "text", dir: "auto" }, result.error ? "not answered" : summary(result.answer)),
      hasShares ? el("td", { class: "number" }, result.error ? "" : surety(result.answer)) : null));
    const caption = this.results.length > SHOWN ? `The first ${SHOWN} of ${counted(this.results.length, "row")}` : "All rows";
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Answers" }, el("table", {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...headings.map((name, index) =>
        el("th", { scope: "col", class: index % 3 ? "text" : "number" }, name)))),
      el("tbody", {}, ...body)));
  }

  /** What is downloaded, as `weft predict --with-input` writes it; rows that were not sent are left out. */
  records() {
    const { task, rows } = this.ran;
    return this.results.map((result, place) => {
      const { line, values } = rows[place];
      if (result === null) return null;
      const fields = result.error ? { task: task.name, error: result.error } : result.answer;
      return { line, ...fields, ...(values ? { input: values } : {}) };
    }).filter((record) => record !== null);
  }
}

function errorList(errors) {
  const more = errors.length - ERRORS_SHOWN;
  return el("div", { class: "box bad" }, el("p", {}, counted(errors.length, "row") + " could not be answered:"),
    el("ul", {}, ...errors.slice(0, ERRORS_SHOWN).map(([line, error]) =>
      el("li", { dir: "auto" }, el("strong", {}, `line ${line}`), `: ${error}`))),
    more > 0 ? el("p", {}, `and ${whole(more)} more; the downloaded files have all of them`) : null);
}

/** The values of a row in one line. */
function preview({ values }) {
  const text = Object.values(values ?? {}).map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" · ");
  return text.length > 140 ? `${text.slice(0, 140)}…` : text;
}

/** The probability of the predicted label or choice, if there is one. */
function surety({ probabilities, label, choice }) {
  const share = probabilities?.[label ?? choice];
  return share === undefined ? "" : percent(share);
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
