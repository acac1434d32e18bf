// Elements are made of text alone: whatever a name holds, it is never read as markup.
export const SIGNS = { good: "●", unknown: "○", doubt: "▲", bad: "✕" };
export const WORDS = { good: "well", unknown: "unknown", doubt: "strained", bad: "in trouble" };
const SVG = "http://www.w3.org/2000/svg";

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

export const storyOf = (about) => `/story?about=${encodeURIComponent(about)}`;
export const topicPage = (name) => `/topic?name=${encodeURIComponent(name)}`;

export function badge(grade, word, about) {
  return make("a", { class: `badge ${grade}`, href: storyOf(about), title: `${WORDS[grade]}: why?` },
    make("span", { class: "sign" }, SIGNS[grade]), make("span", {}, word));
}

export const number = (value, digits = 0) =>
  value === null || value === undefined ? "–"
    : value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
export const ms = (value) => (value === null || value === undefined ? "–" : number(value, value < 10 ? 1 : 0));
export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)}%`);
// A share near one: never rounded up to all of it.
export const nearly = (value) => (value === null || value === undefined ? "–" : `${number(Math.floor(1000 * value) / 10, value < 1 ? 1 : 0)}%`);
export const clock = (at, millis = false) => {
  const time = new Date(at * 1000);
  const text = time.toLocaleTimeString("en-GB");
  return millis ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
};
export function bits(bps) {
  for (const [unit, size] of [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]])
    if (bps >= size) return `${number(bps / size, bps / size < 10 ? 1 : 0)} ${unit}`;
  return `${number(bps)} bit/s`;
}
export function size(bytes) {
  for (const [unit, each] of [["GB", 2 ** 30], ["MB", 2 ** 20], ["KB", 2 ** 10]])
    if (bytes >= each) return `${number(bytes / each, bytes / each < 10 ? 1 : 0)} ${unit}`;
  return `${number(bytes)} B`;
}

// A table whose rows are kept and only written where they differ: a page of hundreds may change each second.
// A column: {name, cell(row) → text or element, sort key of the element (text), number, hint, keep}
export class Rows {
  constructor(columns, keyOf) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.kept = new Map();
    this.body = make("tbody");
    const head = make("tr", {}, ...columns.map((column) =>
      make("th", { class: column.number ? "number" : "", title: column.hint ?? null }, column.name)));
    this.element = make("div", { class: "table-frame" },
      make("table", { class: "rows" }, make("thead", {}, head), this.body));
  }

  show(rows) {
    const seen = new Set();
    let place = this.body.firstElementChild;
    for (const row of rows) {
      const key = this.keyOf(row);
      seen.add(key);
      let kept = this.kept.get(key);
      if (!kept) {
        const cells = this.columns.map((column) =>
          make("td", { class: column.number ? "number" : column.wide ? "wide" : "", "data-label": column.name }));
        kept = { element: make("tr", { "data-key": key }, ...cells), cells, texts: [] };
        this.kept.set(key, kept);
      }
      this.columns.forEach((column, place) => {
        const mark = String(column.mark ? column.mark(row) : column.cell(row));
        if (kept.texts[place] === mark) return;
        kept.texts[place] = mark;
        const cell = kept.cells[place];
        cell.replaceChildren(column.cell(row));
        cell.classList.toggle("none", cell.textContent === "–");
      });
      if (kept.element === place) place = place.nextElementSibling;
      else this.body.insertBefore(kept.element, place);
    }
    for (const [key, kept] of this.kept)
      if (!seen.has(key)) {
        kept.element.remove();
        this.kept.delete(key);
      }
  }
}

export const section = (title, hint, ...children) =>
  make("section", { class: "panel" }, make("h2", {}, title), hint ? make("p", { class: "hint" }, hint) : null, ...children);
