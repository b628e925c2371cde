// Which columns of a file a task reads: guessed by name, and changed by the user.

import { el } from "./dom.js";

/**
 * Shows one choice per input of a task. Inputs that are lists take one column of lists, or several columns.
 * @returns {(row: object) => object} the inputs of a row, as the choices are at that moment
 */
export function columnChoices(place, task, columns) {
  const taken = new Set();
  const readers = [];
  const fields = task.inputs.map((name, index) => {
    const isList = Array.isArray(task.example[name]);
    const guess = isList ? guessSeveral(name, columns, taken) : guessOne(name, index, columns, taken);
    guess.forEach((column) => taken.add(column));
    const [field, chosen] = isList ? severalField(name, columns, guess) : oneField(name, index, columns, guess[0]);
    readers.push([name, isList ? (row) => listOf(row, chosen()) : (row) => cellOf(row, chosen())]);
    return field;
  });
  place.replaceChildren(...fields);
  return (row) => Object.fromEntries(readers.map(([name, read]) => [name, read(row)]));
}

/** The column of the same name, else the first that is free. */
function guessOne(name, index, columns, taken) {
  const same = columns.find((column) => column.toLowerCase() === name.toLowerCase());
  return [same ?? columns.find((column) => !taken.has(column)) ?? columns[index] ?? columns[0]];
}

/** The column of the same name, else those that begin like it (choice1, choice2), else the first that is free. */
function guessSeveral(name, columns, taken) {
  const same = columns.filter((column) => column.toLowerCase() === name.toLowerCase());
  const stem = name.toLowerCase().replace(/s$/, "");
  const like = columns.filter((column) => !taken.has(column) && column.toLowerCase().startsWith(stem));
  return [same, like, columns.filter((column) => !taken.has(column)).slice(0, 1)].find((some) => some.length) ?? [];
}

function oneField(name, index, columns, guess) {
  const id = `column-${index}`;
  const select = el("select", { id }, ...columns.map((column, number) => el("option", { value: number }, column)));
  select.value = String(Math.max(0, columns.indexOf(guess)));
  const field = el("div", { class: "field" }, el("label", { for: id }, "Column of ", el("code", {}, name)), select);
  return [field, () => columns[Number(select.value)]];
}

function severalField(name, columns, guess) {
  const boxes = columns.map((column) => {
    const box = el("input", { type: "checkbox" });
    box.checked = guess.includes(column);
    return box;
  });
  const field = el("fieldset", { class: "field" },
    el("legend", {}, "Columns of ", el("code", {}, name)),
    el("div", { class: "boxes" }, ...boxes.map((box, index) => el("label", { dir: "auto" }, box, columns[index]))),
    el("p", { class: "muted small" }, "one column with lists (in a csv: as JSON), or one column per choice"));
  return [field, () => columns.filter((_, index) => boxes[index].checked)];
}

/** A cell, or null: a row of a jsonl file may lack a column. */
const cellOf = (row, column) => (Object.hasOwn(row, column) ? row[column] : null);

/** The choices of a row: the cells of several columns, or the list in one. */
function listOf(row, columns) {
  if (columns.length !== 1) return columns.map((column) => cellOf(row, column)).filter((cell) => cell !== "" && cell != null);
  const cell = cellOf(row, columns[0]);
  if (typeof cell !== "string") return cell;
  try {
    return JSON.parse(cell);
  } catch {
    return cell; // the server says what it expected
  }
}
