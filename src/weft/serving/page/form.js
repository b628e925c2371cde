// The inputs of a task as fields of a form, filled with the task's example request.

import { el } from "./dom.js";

const LABELS = new Map(Object.entries({
  text: "Text", text_a: "First text", text_b: "Second text", choices: "Choices",
}));
const LABELS_BY_KIND = new Map(Object.entries({
  "span text_a": "Question", "span text_b": "Context", "rank text": "Query", "rank choices": "Candidates",
}));

/** The pseudo-task "all tasks": its example is put together from those of the tasks. */
export function allTasks(tasks) {
  const text = tasks.map((task) => task.example.text ?? task.example.text_a).find((value) => typeof value === "string");
  const second = tasks.map((task) => task.example.text_b).find((value) => typeof value === "string");
  const choices = tasks.map((task) => task.example.choices).find(Array.isArray);
  const example = { text: text ?? "" };
  if (second !== undefined) example.text_b = second;
  if (choices !== undefined) example.choices = choices;
  return { name: null, kind: null, example, inputs: Object.keys(example) };
}

/** The body of a request for a task with these values, or for all tasks. */
export function bodyOf(task, values) {
  if (task.name !== null) return { task: task.name, ...values };
  const { text, text_b: second, choices } = values;
  const body = { tasks: "all", text };
  // tasks on one text read `text`, tasks on pairs read `text_a` and `text_b`
  if (second?.trim()) Object.assign(body, { text_a: text, text_b: second });
  const written = (choices ?? []).filter((choice) => choice.trim());
  if (written.length) body.choices = written;
  return body;
}

/** The fields of one task. */
export class Fields {
  /**
   * @param {HTMLElement} place where the fields are put
   * @param {object} task an entry of `GET /v1/tasks`, or `allTasks`
   * @param {Map} edited values that the user has typed, by input; they survive a change of the task
   */
  constructor(place, task, edited) {
    this.task = task;
    this.edited = edited;
    this.readers = new Map();
    place.replaceChildren(...task.inputs.map((name, index) => this.field(name, `input-${index}`)));
  }

  /** The values, by input. */
  values() {
    return Object.fromEntries([...this.readers].map(([name, read]) => [name, read()]));
  }

  field(name, id) {
    const example = this.task.example[name];
    const before = this.edited.get(name);
    // a text that was typed for another task is kept if this one has such an input
    const value = before !== undefined && Array.isArray(before) === Array.isArray(example) ? before : example;
    if (Array.isArray(example)) return this.listField(name, id, value);
    const isNumber = typeof example === "number";
    const isLong = !isNumber && (LABELS.has(name) || String(example).length > 24);
    const control = isLong
      ? el("textarea", { id, rows: name === "text_b" || name === "text" ? 4 : 3, dir: "auto" })
      : el("input", { id, type: "text", inputmode: isNumber ? "numeric" : null, dir: "auto", autocomplete: "off" });
    control.value = value;
    this.readers.set(name, () => (isNumber ? asNumber(control.value) : control.value));
    control.addEventListener("input", () => this.edited.set(name, this.readers.get(name)()));
    return el("div", { class: isLong ? "field" : "field short" }, el("label", { for: id }, ...this.label(name)), control);
  }

  label(name) {
    const words = LABELS_BY_KIND.get(`${this.task.kind} ${name}`) ?? LABELS.get(name);
    if (words === undefined) return [el("code", {}, name)];
    if (this.task.name === null) {
      if (name === "text_b") return ["Second text ", el("span", { class: "muted" }, "optional, for tasks on pairs")];
      if (name === "choices") return ["Choices ", el("span", { class: "muted" }, "optional, for tasks that choose or rank")];
    }
    return [words, " ", el("code", { class: "muted" }, name)];
  }

  /** A list of texts: one line each, which can be added and removed. */
  listField(name, id, values) {
    const list = el("ol", { class: "choices" });
    const inputs = () => [...list.querySelectorAll("input")];
    const read = () => inputs().map((input) => input.value);
    const changed = () => {
      this.edited.set(name, read());
      renumber();
    };
    const renumber = () => inputs().forEach((input, index) => {
      input.setAttribute("aria-label", `Choice ${index + 1}`);
      input.nextElementSibling.setAttribute("aria-label", `Remove choice ${index + 1}`);
      input.nextElementSibling.disabled = inputs().length === 1;
    });
    const add = (text) => {
      const input = el("input", { type: "text", dir: "auto", autocomplete: "off", input: changed });
      input.value = text;
      input.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
        event.preventDefault(); // Enter goes on to the next choice; it does not send
        const next = inputs()[inputs().indexOf(input) + 1] ?? add("");
        next.focus();
        changed();
      });
      const remove = el("button", { type: "button", class: "icon", click: () => {
        const neighbour = inputs()[Math.max(0, inputs().indexOf(input) - 1)];
        input.parentElement.remove();
        changed();
        (neighbour.isConnected ? neighbour : inputs()[0]).focus();
      } }, "×");
      list.append(el("li", {}, input, remove));
      return input;
    };
    values.forEach(add);
    renumber();
    this.readers.set(name, read);
    const more = el("button", { type: "button", class: "add", click: () => { add("").focus(); changed(); } }, "Add a choice");
    return el("fieldset", { class: "field", id }, el("legend", {}, ...this.label(name)), list, more);
  }
}

/** The number of a text, or the text itself: the server says what is wrong with it. */
function asNumber(text) {
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
