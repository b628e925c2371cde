// Shows an answer by the fields that it has, so that answers of new kinds of tasks are shown too.

import { decimal, el, percent } from "./dom.js";
import { spanText, taggedText } from "./marked_text.js";

const MOST_BARS = 12;

/**
 * The parts of an answer as elements.
 * @param {object} task an entry of `GET /v1/tasks`
 * @param {object} answer the server's answer
 * @param {object} values the inputs that were sent
 */
export function answerView(task, answer, values) {
  const view = el("div", { class: "answer" }, el("p", { class: "headline", dir: "auto" }, ...headline(task, answer, values)));
  if (answer.truncated) {
    view.append(el("p", { class: "box warn" }, "The text is longer than the model reads: a part of it was left out."));
  }
  const detail = detailOf(task, answer, values);
  if (detail !== null) view.append(detail);
  return view;
}

/** An answer in one line, for tables and screen readers. */
export function summary(answer) {
  if (answer.label !== undefined) return String(answer.label);
  if (answer.labels !== undefined) return answer.labels.join(", ") || "none";
  if (answer.answer !== undefined) return answer.answer;
  if (answer.choice !== undefined) return answer.text;
  if (answer.order !== undefined) return answer.order.map((index) => index + 1).join(" > ");
  if (answer.value !== undefined) return [answer.value].flat().map((value) => decimal(value)).join(", ");
  if (answer.entities !== undefined) return answer.entities.map(({ type, text }) => `${type}: ${text}`).join("; ") || "no entities";
  if (answer.tags !== undefined) return answer.tags.join(" ");
  return JSON.stringify(answer);
}

function headline(task, answer, values) {
  if (answer.order !== undefined) return [choiceText(values, answer.order[0])];
  if (answer.entities !== undefined) {
    return [answer.entities.length === 1 ? "1 entity" : `${answer.entities.length || "No"} entities`];
  }
  if (answer.labels !== undefined && !answer.labels.length) return [el("span", { class: "muted" }, "none of the labels")];
  if (answer.tags !== undefined) return [`${answer.tags.length} tags`];
  if (answer.answer === "") return [el("span", { class: "muted" }, "no answer")];
  return [summary(answer)];
}

function detailOf(task, answer, values) {
  if (answer.start !== undefined && typeof values.text_b === "string") return spanText(answer, values.text_b);
  if (answer.tags !== undefined && values.text !== undefined) {
    return taggedText(answer, values.text, task.labels ?? []);
  }
  if (answer.order !== undefined) return ranking(answer, values);
  if (Array.isArray(answer.probabilities)) {
    const rows = answer.probabilities.map((share, index) => [choiceText(values, index), share, index === answer.choice]);
    return bars(rows);
  }
  if (answer.probabilities !== undefined) {
    const predicted = new Set(answer.labels ?? [answer.label]);
    return bars(Object.entries(answer.probabilities).map(([label, share]) => [label, share, predicted.has(label)]));
  }
  if (answer.value !== undefined && task.range) {
    return el("div", {}, ...[answer.value].flat().map((value) => onRange(value, task.range)));
  }
  return null;
}

const choiceText = (values, index) => String(values.choices?.[index] ?? `choice ${index + 1}`);

/** Probabilities as bars, the most probable first; a long list is folded after the first few. */
function bars(rows) {
  const sorted = rows.toSorted((a, b) => b[1] - a[1]);
  const list = (part) => el("ul", { class: "bars" }, ...part.map(bar));
  if (sorted.length <= MOST_BARS) return list(sorted);
  const rest = el("details", {}, el("summary", {}, `${sorted.length - MOST_BARS} more`), list(sorted.slice(MOST_BARS)));
  return el("div", {}, list(sorted.slice(0, MOST_BARS)), rest);
}

function bar([name, share, isPredicted]) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * share}%`;
  return el("li", { class: isPredicted ? "predicted" : null },
    el("span", { class: "name", dir: "auto" }, name, isPredicted ? el("span", { class: "unseen" }, " (predicted)") : null),
    el("span", { class: "share" }, percent(share)),
    el("span", { class: "track", "aria-hidden": "true" }, fill));
}

/** Candidates, best first, with their scores. */
function ranking(answer, values) {
  const best = Math.max(...answer.scores);
  return el("ol", { class: "ranking" }, ...answer.order.map((index, place) => {
    const fill = el("span", { class: "fill" });
    fill.style.width = `${100 * Math.exp(answer.scores[index] - best)}%`; // the odds against the best
    return el("li", { class: place === 0 ? "predicted" : null },
      el("span", { class: "name", dir: "auto" }, choiceText(values, index)),
      el("span", { class: "share" }, decimal(answer.scores[index])),
      el("span", { class: "track", "aria-hidden": "true" }, fill));
  }));
}

/** A number on the range of its task. */
function onRange(value, [low, high]) {
  const dot = el("span", { class: "dot" });
  dot.style.left = `${100 * Math.min(1, Math.max(0, (value - low) / (high - low)))}%`;
  return el("div", { class: "range" },
    el("span", { class: "end" }, decimal(low)),
    el("span", { class: "line", role: "img", "aria-label": `${decimal(value)} on a range from ${decimal(low)} to ${decimal(high)}` }, dot),
    el("span", { class: "end" }, decimal(high)));
}
