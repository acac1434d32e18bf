// Mercator, fitted to the sites; places beyond the poles' reach are drawn at its rim.
const RIM = 82;
const north = (latitude) => {
  const bounded = Math.max(-RIM, Math.min(RIM, latitude)) * Math.PI / 180;
  return Math.log(Math.tan(Math.PI / 4 + bounded / 2)) * 180 / Math.PI;
};
const south = (y) => (2 * Math.atan(Math.exp(y * Math.PI / 180)) - Math.PI / 2) * 180 / Math.PI;
export const EARTH_KM = 6371.0088;

export class Projection {
  constructor(places, width, height, zoom = { factor: 1, x: 0, y: 0 }) {
    const xs = places.map(([, longitude]) => longitude);
    const ys = places.map(([latitude]) => north(latitude));
    const [left, right] = places.length ? [Math.min(...xs), Math.max(...xs)] : [-170, 170];
    const [low, high] = places.length ? [Math.min(...ys), Math.max(...ys)] : [-60, 75];
    const margin = { x: Math.min(90, 0.13 * width), y: Math.min(80, 0.16 * height) };
    const fit = Math.min((width - 2 * margin.x) / Math.max(right - left, 4), (height - 2 * margin.y) / Math.max(high - low, 3));
    this.scale = fit * zoom.factor;
    this.centre = [(left + right) / 2, (low + high) / 2];
    this.shift = [width / 2 + zoom.x, height / 2 + zoom.y];
  }

  point([latitude, longitude]) {
    return [
      this.shift[0] + (longitude - this.centre[0]) * this.scale,
      this.shift[1] - (north(latitude) - this.centre[1]) * this.scale,
    ];
  }

  place([x, y]) {
    return [
      south((this.shift[1] - y) / this.scale + this.centre[1]),
      (x - this.shift[0]) / this.scale + this.centre[0],
    ];
  }
}

export function kilometres([a, b], [c, d]) {
  const [p, q, r, s] = [a, b, c, d].map((degrees) => degrees * Math.PI / 180);
  const half = Math.sin((r - p) / 2) ** 2 + Math.cos(p) * Math.cos(r) * Math.sin((s - q) / 2) ** 2;
  return 2 * EARTH_KM * Math.asin(Math.min(1, Math.sqrt(half)));
}

// A circle of so many kilometres as it looks on the map.
export function circle(projection, [latitude, longitude], radius) {
  const points = [];
  const reach = radius / EARTH_KM;
  const phi = latitude * Math.PI / 180;
  for (let step = 0; step < 72; step++) {
    const bearing = 2 * Math.PI * step / 72;
    const there = Math.asin(Math.sin(phi) * Math.cos(reach) + Math.cos(phi) * Math.sin(reach) * Math.cos(bearing));
    const turn = Math.atan2(Math.sin(bearing) * Math.sin(reach) * Math.cos(phi), Math.cos(reach) - Math.sin(phi) * Math.sin(there));
    points.push(projection.point([there * 180 / Math.PI, longitude + turn * 180 / Math.PI]));
  }
  return `M${points.map((each) => each.map((value) => value.toFixed(1)).join(" ")).join("L")}Z`;
}

export function land(projection, rings) {
  return rings.map((ring) => `M${ring.map(([longitude, latitude]) =>
    projection.point([latitude, longitude]).map((value) => value.toFixed(1)).join(" ")).join("L")}Z`).join("");
}

const bent = ([[x1, y1], [x2, y2]]) => {
  const bend = 0.09 * (x1 <= x2 ? 1 : -1);
  return [(x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1)];
};

// From one point to the other by a gentle bow, so that links over the same places are told apart.
export function bow(points) {
  if (points.length > 2) return `M${points.map((each) => each.map((value) => value.toFixed(1)).join(" ")).join("L")}`;
  const [[x1, y1], [x2, y2]] = points;
  const [cx, cy] = bent(points);
  return `M${x1.toFixed(1)} ${y1.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
}

// Some points of the same line near its ends, where labels stand.
export function nearEnds(points) {
  if (points.length > 2) return points;
  const [[x1, y1], [x2, y2]] = points;
  const [cx, cy] = bent(points);
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  return [12, 26, 40, 55, 70].filter((far) => far < length).flatMap((far) => [far / length, 1 - far / length]).map((part) => {
    const [a, b, c] = [(1 - part) ** 2, 2 * part * (1 - part), part ** 2];
    return [a * x1 + b * cx + c * x2, a * y1 + b * cy + c * y2];
  });
}
