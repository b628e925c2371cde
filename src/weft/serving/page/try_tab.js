// The tab "Try": one request for one task, or for all tasks, and its answer.

import { answerView, summary } from "./answers.js";
import { byId, copyButton, counted, duration, el } from "./dom.js";
import { Fields, allTasks, bodyOf } from "./form.js";
import { call, hasKey } from "./server.js";

/** A single-quoted word of a POSIX shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The curl command of a request. The API key is a variable of the shell: it is never shown. */
export function curlCommand(address, body, withKey) {
  const lines = [`curl -s ${quoted(address)}`, "-H 'Content-Type: application/json'"];
  if (withKey) lines.push('-H "Authorization: Bearer $KEY"');
  lines.push(`-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/** The options of a list of tasks, by kind; the value of an option is the task's place in the list. */
export function taskOptions(tasks) {
  const kinds = new Map();
  tasks.forEach((task, index) => {
    if (!kinds.has(task.kind)) kinds.set(task.kind, el("optgroup", { label: task.kind }));
    kinds.get(task.kind).append(el("option", { value: index }, task.name));
  });
  return [...kinds.values()];
}

export class TryTab {
  constructor() {
    this.tasks = [];
    this.edited = new Map();
    this.sending = null; // the AbortController of a request that is under way
    byId("task").addEventListener("change", () => this.chosen());
    byId("example").addEventListener("click", () => { this.edited.clear(); this.chosen(); });
    byId("question").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    byId("question").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.send(); }
    });
    for (const id of ["raw", "curl"]) {
      byId(id).querySelector(".code").append(copyButton(byId(id).querySelector("pre")));
    }
  }

  /** Offers these tasks; the chosen one stays chosen if it is still there. */
  offer(tasks) {
    const before = this.task?.name;
    this.tasks = tasks;
    this.all = allTasks(tasks);
    const several = tasks.length > 1 ? [el("option", { value: "all" }, `All ${tasks.length} tasks`)] : [];
    byId("task").replaceChildren(...several, ...taskOptions(tasks));
    const index = tasks.findIndex((task) => task.name === before);
    byId("task").value = index < 0 ? (several.length && before === null ? "all" : "0") : String(index);
    this.chosen();
  }

  chosen() {
    const value = byId("task").value;
    this.task = value === "all" ? this.all : this.tasks[Number(value)];
    byId("task-note").textContent = note(this.task);
    this.fields = new Fields(byId("inputs"), this.task, this.edited);
    this.clear("Send the request to see the answer.");
  }

  clear(message) {
    this.sending?.abort();
    byId("answers").replaceChildren();
    byId("raw").hidden = byId("curl").hidden = true;
    byId("result-status").textContent = message;
  }

  async send() {
    const { task } = this;
    const body = bodyOf(task, this.fields.values());
    this.clear("Waiting for the answer …");
    const sending = this.sending = new AbortController();
    const pre = byId("curl").querySelector("pre");
    pre.textContent = curlCommand(new URL("v1/predict", document.baseURI).href, body, hasKey());
    byId("curl").hidden = false;
    byId("result").setAttribute("aria-busy", "true");
    const began = performance.now();
    try {
      const reply = await call("v1/predict", { body, signal: sending.signal });
      const seconds = (performance.now() - began) / 1000;
      byId("raw").querySelector("pre").textContent = JSON.stringify(reply, null, 2);
      byId("raw").hidden = false;
      const answer = reply.answers[0];
      if (task.name === null) this.showAll(answer.tasks, body, seconds);
      else this.showOne(answer, body, seconds);
      // on a phone the answer is below the form
      if (matchMedia("(max-width: 860px)").matches) byId("result").scrollIntoView({ block: "nearest" });
    } catch (wrong) {
      if (wrong.name === "AbortError") return; // a newer request has taken its place
      byId("result-status").textContent = "";
      byId("answers").replaceChildren(errorBox(wrong));
    } finally {
      if (this.sending === sending) byId("result").removeAttribute("aria-busy");
    }
  }

  showOne(answer, body, seconds) {
    byId("result-status").replaceChildren(
      `Answered in ${duration(seconds)}`, el("span", { class: "unseen" }, `: ${summary(answer)}`));
    byId("answers").replaceChildren(answerView(this.task, answer, body));
  }

  /** One card per task that could read the inputs, and the names of the others. */
  showAll(answers, body, seconds) {
    const cards = this.tasks.filter((task) => Object.hasOwn(answers, task.name)).map((task) => el("article", { class: "card" },
      el("h3", { dir: "auto" }, task.name, " ", el("span", { class: "badge" }, task.kind)),
      answerView(task, answers[task.name], body)));
    const others = this.tasks.filter((task) => !Object.hasOwn(answers, task.name));
    byId("result-status").textContent = `${counted(cards.length, "task")} answered in ${duration(seconds)}`;
    byId("answers").replaceChildren(el("div", { class: "cards" }, ...cards));
    if (!others.length) return;
    byId("answers").append(el("div", { class: "absent" }, el("p", {}, "Not answered, because these tasks take other inputs:"),
      el("ul", {}, ...others.map((task) => el("li", { dir: "auto" }, task.name, " ",
        el("span", { class: "muted" }, `takes ${task.inputs.join(", ")}`))))));
  }
}

/** What a task is, in one line below its name. */
function note(task) {
  if (task.name === null) return "Every task that can read these inputs answers.";
  const parts = [task.kind];
  if (task.labels) parts.push(counted(task.labels.length, "label"));
  if (task.range) parts.push(`from ${task.range[0]} to ${task.range[1]}`);
  return parts.join(", ") + (task.note ? `. ${task.note}` : "");
}

/** An error of the server, or of this page. */
export function errorBox(wrong) {
  return el("p", { class: "box bad", role: "alert", dir: "auto" }, String(wrong.status !== undefined ? wrong : wrong.message));
}
