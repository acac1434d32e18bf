// A line of the last minutes: what was observed, what was predicted, and the deadline.
import { draw, make, ms, number } from "./dom.js";

const [H, LEFT, RIGHT, TOP, LOW] = [250, 44, 12, 16, 24];

// Round steps: 1, 2 or 5 times a power of ten.
function steps(top) {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, place) => place * step);
}

export function delayChart(history, row, width) {
  const W = Math.max(280, width || 1100);
  const seen = history.filter(([, observed]) => observed !== null);
  if (seen.length < 2) return make("p", { class: "hint" }, "Nothing has arrived in the last minutes.");
  const last = history[history.length - 1][0];
  const first = Math.min(seen[0][0], last - 30);
  const top = 1.12 * Math.max(row.deadline_ms ?? 0, row.predicted_ms ?? 0, ...seen.map(([, observed]) => observed));
  const x = (at) => LEFT + (W - LEFT - RIGHT) * (at - first) / (last - first || 1);
  const y = (value) => H - LOW - (H - LOW - TOP) * value / top;
  const chart = draw("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "delay over time" });
  for (const value of steps(top)) {
    chart.append(draw("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
      draw("text", { class: "tick-text", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, value && value < 1 ? 1 : 0)));
  }
  const rule = (value, kind, word, drop) => {
    if (value === null) return;
    chart.append(draw("line", { class: kind, x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
      draw("text", { class: `rule-text ${kind}`, x: W - RIGHT - 4, y: y(value) + drop, "text-anchor": "end" }, `${word} ${ms(value)} ms`));
  };
  rule(row.deadline_ms, "deadline", "deadline", (row.deadline_ms ?? 0) < (row.predicted_ms ?? 0) ? 13 : -5);
  rule(row.predicted_ms, "predicted", "predicted", (row.predicted_ms ?? 0) <= (row.deadline_ms ?? 0) ? 13 : -5);
  const points = seen.map(([at, observed]) => `${x(at).toFixed(1)} ${y(observed).toFixed(1)}`);
  chart.append(draw("path", { class: "area", d: `M${x(seen[0][0]).toFixed(1)} ${y(0)}L${points.join("L")}L${x(seen[seen.length - 1][0]).toFixed(1)} ${y(0)}Z` }),
    draw("path", { class: "observed", d: `M${points.join("L")}` }),
    draw("text", { class: "tick-text", x: LEFT, y: H - 6 }, `${number(last - first)} s ago`),
    draw("text", { class: "tick-text", x: W - RIGHT, y: H - 6, "text-anchor": "end" }, "now"));
  return chart;
}
