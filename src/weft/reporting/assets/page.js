"use strict";
(() => {
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (toggle) {
    toggle.hidden = false;
    const name = () => { toggle.textContent = dark() ? "Light theme" : "Dark theme"; };
    toggle.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
    name();
  }

  const number = (cell) => {
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    return parseFloat(cell.textContent.trim().replaceAll(",", "").replace("\u2212", "-"));
  };
  const compare = (a, b) => {
    const x = number(a), y = number(b);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return a.textContent.localeCompare(b.textContent);
  };
  const sort = (table, place, up) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    rows.sort((a, b) => {
      const by = compare(a.cells[place], b.cells[place]);
      const missing = Number.isNaN(number(a.cells[place])) !== Number.isNaN(number(b.cells[place]));
      return up || missing ? by : -by;
    });
    body.append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const text = head.classList.contains("text");
        const before = head.getAttribute("aria-sort");
        const up = before ? before === "descending" : text;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        sort(table, place, up);
      });
    });
  }

  for (const box of document.querySelectorAll("input[data-series]")) {
    box.disabled = false;
    const set = () => {
      const section = box.closest("section");
      for (const series of section.querySelectorAll(`g.series[data-series="${box.dataset.series}"]`)) {
        series.classList.toggle("off", !box.checked);
        if (box.checked) series.parentNode.append(series);
      }
    };
    box.addEventListener("change", set);
  }

  // the values at the pointer, from the table of numbers of the same figure
  for (const picture of document.querySelectorAll("figure svg.hover")) {
    const figure = picture.closest("figure");
    const table = figure.querySelector("details table");
    if (!table) continue;
    const readout = document.createElement("div");
    readout.className = "readout";
    readout.setAttribute("aria-hidden", "true");
    picture.parentNode.after(readout);
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const steps = [...table.tBodies[0].rows].map((row) => number(row.cells[0]));
    const { low, high, start, end } = picture.dataset;
    const view = picture.viewBox.baseVal;
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor");
    picture.addEventListener("pointermove", (event) => {
      const place = picture.getBoundingClientRect();
      const x = (event.clientX - place.left) / place.width * view.width;
      const at = Number(low) + (x - start) / (end - start) * (high - low);
      let near = 0;
      steps.forEach((step, i) => { if (Math.abs(step - at) < Math.abs(steps[near] - at)) near = i; });
      const drawn = Number(start) + (steps[near] - low) / (high - low) * (end - start);
      for (const [key, value] of Object.entries({ x1: drawn, x2: drawn, y1: 20, y2: view.height - 40 })) {
        cursor.setAttribute(key, value);
      }
      picture.append(cursor);
      const shown = names.map((_, i) => i).slice(1).filter((i) => {
        const series = picture.querySelector(`g.series[data-column="${i}"]`);
        return !series || !series.classList.contains("off");
      });
      const cells = table.tBodies[0].rows[near].cells;
      readout.textContent = `${names[0]} ${cells[0].textContent}: `
        + shown.map((i) => `${names[i]} ${cells[i].textContent}`).join(" · ");
    });
    picture.addEventListener("pointerleave", () => { cursor.remove(); readout.textContent = ""; });
  }
})();
