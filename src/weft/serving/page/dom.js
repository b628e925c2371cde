// Builds elements. Texts become text nodes, never markup: names, labels and texts may be hostile.

/**
 * Makes an element.
 * @param {string} tag the element's name, always a constant of this page
 * @param {object} attributes values by name; a function listens to the event of that name; null, undefined
 *   and false leave the attribute out
 * @param {...(Node|string|number)} children
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Makes an SVG element, as `el`. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** 0.97312 as "97.3 %". */
export const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;

/** 1234567 as "1,234,567". */
export const whole = (count) => Math.round(count).toLocaleString("en");

/** A number with at most some decimals, and a minus sign instead of a hyphen. */
export const decimal = (number, digits = 4) => String(Number(number.toFixed(digits))).replace("-", "−");

/** Seconds as "850 µs", "12 ms" or "1.20 s". */
export function duration(seconds) {
  if (seconds < 0.001) return `${Math.round(1e6 * seconds)}\u00a0µs`;
  if (seconds < 1) return `${(1e3 * seconds).toFixed(seconds < 0.01 ? 1 : 0)}\u00a0ms`;
  return `${seconds.toFixed(2)}\u00a0s`;
}

/** "1 row", "2 rows". */
export const counted = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A button that copies a text. Without the clipboard API (plain http), the text is selected for copying. */
export function copyButton(source) {
  const button = el("button", { type: "button", class: "copy", "aria-live": "polite" }, "Copy");
  button.addEventListener("click", async () => {
    let done = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      done = true;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      done = document.execCommand("copy");
    }
    button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}
