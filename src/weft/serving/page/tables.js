// Reads csv, tsv, jsonl and plain texts into rows, and writes results as csv and jsonl.

/**
 * @typedef {object} Row a row of a file: its line, and its values by column or what is wrong with it
 * @property {number} line
 * @property {object} [values]
 * @property {string} [error]
 */

const ENDINGS = new Map(Object.entries({ csv: "csv", tsv: "tsv", tab: "tsv", jsonl: "jsonl", ndjson: "jsonl", txt: "txt" }));
const ENOUGH = 1000; // rows of a jsonl file that are searched for columns

/** The text of a file: UTF-8, UTF-16 with its mark, else Windows-1252. */
export async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = (bytes[0] << 8) | bytes[1];
  if (mark === 0xfffe) return new TextDecoder("utf-16le").decode(bytes);
  if (mark === 0xfeff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** The format of a file, by the ending of its name, else by its first line. */
export function formatOf(text, name = "") {
  const byName = ENDINGS.get(name.toLowerCase().split(".").pop());
  if (name.includes(".") && byName) return byName;
  const first = text.trimStart().split("\n", 1)[0];
  if (first.startsWith("{")) return "jsonl";
  if (first.includes("\t")) return "tsv";
  // a header has no spaces after its commas as prose has
  return first.includes(",") && !first.includes(", ") ? "csv" : "txt";
}

/**
 * Reads rows.
 * @returns {{columns: string[], rows: Row[]}}
 */
export function readTable(text, format) {
  const plain = text.replace(/^\ufeff/, "");
  if (format === "jsonl") return readJsonLines(plain);
  if (format === "txt") {
    const rows = numberedLines(plain).map(([line, value]) => ({ line, values: { text: value } }));
    return { columns: ["text"], rows };
  }
  return readDelimited(plain, format === "tsv" ? "\t" : ",");
}

/** The lines that are not blank, with their numbers. */
function numberedLines(text) {
  return text.split(/\r\n|\n|\r/).map((line, index) => [index + 1, line]).filter(([, line]) => line.trim() !== "");
}

function readJsonLines(text) {
  const rows = numberedLines(text).map(([line, source]) => {
    let value;
    try {
      value = JSON.parse(source);
    } catch (wrong) {
      return { line, error: `not JSON: ${wrong.message}` };
    }
    if (typeof value === "string") return { line, values: { text: value } };
    if (value === null || typeof value !== "object" || Array.isArray(value)) {
      return { line, error: `expected a JSON object; found ${source.slice(0, 80)}` };
    }
    return { line, values: value };
  });
  const columns = new Set(rows.slice(0, ENOUGH).flatMap((row) => Object.keys(row.values ?? {})));
  return { columns: [...columns], rows };
}

function readDelimited(text, delimiter) {
  const records = [...delimitedRecords(text, delimiter)];
  if (!records.length) return { columns: [], rows: [] };
  const columns = unique(records[0].cells);
  const rows = records.slice(1).map(({ line, cells }) => {
    if (cells.length !== columns.length) {
      return { line, error: `expected ${columns.length} columns; found ${cells.length}` };
    }
    return { line, values: Object.fromEntries(columns.map((column, index) => [column, cells[index]])) };
  });
  return { columns, rows };
}

/** The names of columns; one that is empty or occurs twice gets its number. */
function unique(names) {
  const seen = new Set();
  return names.map((name, index) => {
    const free = name !== "" && !seen.has(name) ? name : `${name || "column"} ${index + 1}`;
    seen.add(free);
    return free;
  });
}

/** The records of a csv or tsv text (RFC 4180): a quoted cell may hold delimiters, line breaks and "" for ". */
function* delimitedRecords(text, delimiter) {
  let cells = [];
  let line = 1; // of the place
  let first = 1; // of the record
  let at = 0;
  while (at <= text.length) {
    let cell = "";
    if (text[at] === '"') {
      at += 1;
      for (;;) {
        const quote = text.indexOf('"', at);
        const stop = quote < 0 ? text.length : quote;
        cell += text.slice(at, stop);
        at = stop + 1;
        if (text[at] !== '"' || quote < 0) break;
        cell += '"';
        at += 1;
      }
      line += cell.split("\n").length - 1;
    }
    let end = at; // what is left of a quoted cell, or a plain cell
    while (end < text.length && text[end] !== delimiter && text[end] !== "\n" && text[end] !== "\r") end += 1;
    cells.push(cell + text.slice(at, end));
    at = end + 1;
    if (text[end] === delimiter) continue;
    if (text[end] === "\r" && text[end + 1] === "\n") at += 1;
    if (cells.length > 1 || cells[0].trim() !== "") yield { line: first, cells };
    cells = [];
    line += 1;
    first = line;
  }
}

/** Results as JSON lines. */
export const jsonLines = (results) => results.map((result) => `${JSON.stringify(result)}\n`).join("");

/** Results as csv: nested fields are columns with a dot in their names, lists are JSON, as `weft predict` writes. */
export function csvOf(results) {
  const flats = results.map((result) => new Map(flat(result)));
  const columns = [...new Set(flats.flatMap((values) => [...values.keys()]))];
  const lines = [columns, ...flats.map((values) => columns.map((column) => values.get(column) ?? ""))];
  return lines.map((cells) => `${cells.map(csvCell).join(",")}\r\n`).join("");
}

/** The fields of an object as [name, value], those of objects inside it with a dot in their names. */
function flat(value, prefix = "") {
  return Object.entries(value).flatMap(([name, item]) => {
    const isNested = item !== null && typeof item === "object" && !Array.isArray(item);
    return isNested ? flat(item, `${prefix}${name}.`) : [[prefix + name, item]];
  });
}

function csvCell(value) {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
