"use strict";
(() => {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const place = new Map([...letters].map((letter, i) => [letter, i]));
  const shown = document.getElementById("value-at");
  const tokens = [...document.querySelectorAll("#tokens li")].map((item) => item.textContent);
  const count = tokens.length;
  for (const box of document.querySelectorAll("[data-values]")) {
    const picture = box.querySelector("svg.map");
    const { values, name, origin, cell } = box.dataset;
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    mark.setAttribute("class", "at");
    let row = 0, column = 0;
    const show = () => {
      const at = 2 * (row * count + column);
      const share = (64 * place.get(values[at]) + place.get(values[at + 1])) / 4095;
      const [left, top] = origin.split(" ").map(Number);
      mark.setAttribute("x", left + column * cell);
      mark.setAttribute("y", top + row * cell);
      mark.setAttribute("width", cell);
      mark.setAttribute("height", cell);
      picture.append(mark);
      shown.textContent = `${name}: token ${row}, ${tokens[row]}, attends to token ${column}, ${tokens[column]}: `
        + `${(100 * share).toFixed(1)} %`;
    };
    box.addEventListener("pointermove", (event) => {
      const size = picture.getBoundingClientRect();
      const scale = picture.viewBox.baseVal.width / size.width;
      const [left, top] = origin.split(" ").map(Number);
      const x = Math.floor(((event.clientX - size.left) * scale - left) / cell);
      const y = Math.floor(((event.clientY - size.top) * scale - top) / cell);
      if (x < 0 || y < 0 || x >= count || y >= count) return;
      [row, column] = [y, x];
      show();
    });
    box.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      row = Math.min(count - 1, Math.max(0, row + move[0]));
      column = Math.min(count - 1, Math.max(0, column + move[1]));
      show();
    });
    box.addEventListener("focus", show);
    box.addEventListener("blur", () => mark.remove());
  }
})();
