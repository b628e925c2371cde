// Texts with marked pieces: entities of tagging, and the answer of a span.

import { el } from "./dom.js";

// the white space at which Python splits a text; JavaScript's \s differs
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WORD = new RegExp(`[^${SPACE}]+`, "g");

/** A text, or a list of words, as one text and the place of each word in it. */
export function wordPlaces(value) {
  if (!Array.isArray(value)) {
    const places = [...value.matchAll(WORD)].map((match) => [match.index, match.index + match[0].length]);
    return { text: value, places };
  }
  const places = [];
  let text = "";
  for (const word of value) {
    if (text) text += " ";
    places.push([text.length, text.length + String(word).length]);
    text += word;
  }
  return { text, places };
}

/** Python counts characters as code points, JavaScript as UTF-16 units; this converts one place. */
export function unitsAt(text, codePoints) {
  let units = 0;
  for (let count = 0; count < codePoints && units < text.length; count += 1) {
    units += text.codePointAt(units) > 0xffff ? 2 : 1;
  }
  return units;
}

/**
 * A paragraph in which pieces are marked.
 * @param {string} text
 * @param {Array<{start: number, end: number, type?: string, colour: number}>} pieces in order, apart
 */
export function markedText(text, pieces) {
  const paragraph = el("p", { class: "marked", dir: "auto" });
  let done = 0;
  for (const { start, end, type, colour } of pieces) {
    const mark = el("mark", { class: `c${colour % 8}` }, text.slice(start, end));
    if (type !== undefined) mark.append(el("span", { class: "type" }, type));
    paragraph.append(text.slice(done, start), mark);
    done = end;
  }
  paragraph.append(text.slice(done));
  return paragraph;
}

/** The text of a tagging request with its entities, or with the tag of each word if the tags are not BIO. */
export function taggedText(answer, value, labels) {
  const { text, places } = wordPlaces(value);
  if (places.length !== answer.tags.length) return null;
  const types = [...new Set(labels.map((label) => label.replace(/^[BI]-/, "")))].filter((type) => type !== "O");
  const spans = answer.entities
    ? answer.entities.map(({ type, first, last }) => ({ type, first, last }))
    : answer.tags.map((type, index) => ({ type, first: index, last: index })).filter(({ type }) => type !== "O");
  return markedText(text, spans.map(({ type, first, last }) => (
    { start: places[first][0], end: places[last][1], type, colour: Math.max(0, types.indexOf(type)) }
  )));
}

/** The context of a question with the answer marked. */
export function spanText(answer, context) {
  const [start, end] = [unitsAt(context, answer.start), unitsAt(context, answer.end)];
  return markedText(context, end > start ? [{ start, end, colour: 0 }] : []);
}
