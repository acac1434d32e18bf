// The map: what is, what was, and what would be.
import { SIGNS, WORDS, bits, clock, draw, make, ms, number, set, share, storyOf, topicPage } from "./dom.js";
import { ask, live } from "./live.js";
import { Projection, bow, circle, kilometres, land, nearEnds } from "./projection.js";

const MAX_ANIMATED = 80;
const STILL = matchMedia("(prefers-reduced-motion: reduce)").matches;
const linkKey = (ends) => ends.join("--");

export class MapPage {
  constructor(root, subject) {
    this.root = root;
    this.topic = subject;
    this.topicView = null;
    this.rings = [];
    this.shown = null;
    this.latest = null;
    this.past = null;
    this.danger = null;
    this.zoom = { factor: 1, x: 0, y: 0 };
    this.build();
    ask("world", {}).then((rings) => {
      this.rings = rings ?? [];
      this.redraw();
    });
    new ResizeObserver(() => this.redraw()).observe(this.frame);
    this.search("");
    if (subject) this.choose(subject);
  }

  build() {
    this.svg = draw("svg", { class: "map", role: "img", "aria-label": "map of the federation" });
    this.layers = {};
    for (const name of ["land", "regions", "links", "flows", "paths", "sites", "labels", "circle"])
      this.svg.append(this.layers[name] = draw("g", { class: name }));
    this.tip = make("div", { class: "tip", hidden: "" });
    this.frame = make("div", { class: "map-frame" }, this.svg, this.tip, this.legend());
    this.searchBox = make("input", { type: "search", placeholder: "Find a topic", maxlength: 100, "aria-label": "find a topic" });
    this.searchBox.addEventListener("input", () => this.search(this.searchBox.value));
    this.topicList = make("ul", { class: "topic-list" });
    this.detail = make("div", { class: "detail" });
    this.whatIf = make("button", { type: "button", id: "what-if", class: "tool" }, "What if …");
    this.whatIf.addEventListener("click", () => this.toggleWhatIf());
    this.side = make("aside", { class: "side" },
      make("div", { class: "tools" }, this.whatIf),
      this.detail,
      make("h2", {}, "Topics"), this.searchBox, this.topicList);
    this.slider = make("input", { type: "range", id: "slider", min: 0, max: 1000, value: 1000, step: "any", "aria-label": "moment" });
    this.slider.addEventListener("input", () => this.slide());
    this.ticks = make("div", { class: "ticks" });
    this.moment = make("button", { type: "button", id: "moment", class: "moment" }, "live");
    this.moment.addEventListener("click", () => this.present());
    this.play = make("button", { type: "button", id: "replay", class: "tool", title: "replay what happened" }, "▶");
    this.play.addEventListener("click", () => this.replay());
    this.warnings = make("div", { class: "warnings" });
    this.root.append(
      make("div", { class: "map-and-side" },
        make("div", { class: "map-column" }, this.frame,
          make("div", { class: "timeline" }, this.play, make("div", { class: "track" }, this.ticks, this.slider), this.moment),
          this.warnings),
        this.side));
    this.pointer();
  }

  legend() {
    return make("div", { class: "legend" }, ...["good", "doubt", "bad", "unknown"].map((grade) =>
      make("span", { class: grade }, make("i", { class: `stroke ${grade}` }), WORDS[grade])),
      make("span", { class: "wide-only" }, "the wider, the more load"));
  }

  show(document) {
    if (!document.view) return;
    this.latest = document;
    if (!this.past) this.shown = document.view;
    this.spanned(document.span);
    this.warnings.replaceChildren(...document.view.warnings.map((text) => make("p", {}, text)));
    this.redraw();
    const now = Date.now();
    if (now - (this.listed ?? 0) > 2000) this.search(this.searchBox.value);
  }

  // -- the past ------------------------------------------------------------------------------------------

  spanned(span) {
    this.span = span;
    const length = Math.max(span.last - span.first, 1);
    if (!this.past) this.slider.value = 1000;
    else this.slider.value = 1000 * (this.past.at - span.first) / length;
    this.ticks.replaceChildren(...span.marks.map(([at, tone, id]) => {
      const tick = make("a", { class: `tick ${tone}`, href: storyOf(`event:${id}`), title: clock(at) });
      tick.style.left = `${100 * (at - span.first) / length}%`;
      return tick;
    }));
  }

  slide() {
    if (!this.span) return;
    const part = Number(this.slider.value) / 1000;
    if (part >= 0.999) return this.present();
    this.goTo(this.span.first + part * (this.span.last - this.span.first));
  }

  async goTo(at) {
    this.wanted = at;
    if (this.asking) return;
    this.asking = true;
    while (this.wanted !== null) {
      const next = this.wanted;
      this.wanted = null;
      const past = await ask("past", { at: next });
      if (past) {
        this.past = past;
        this.shown = past.view;
      }
    }
    this.asking = false;
    if (!this.past) return;
    this.moment.textContent = `${clock(this.past.at)} · back to live`;
    this.moment.classList.add("past");
    this.frame.classList.add("past");
    this.redraw();
  }

  present() {
    this.past = null;
    this.wanted = null;
    this.slider.value = 1000;
    this.moment.textContent = "live";
    this.moment.classList.remove("past");
    this.frame.classList.remove("past");
    if (this.latest) this.shown = this.latest.view;
    this.redraw();
  }

  replay() {
    if (this.playing) {
      clearInterval(this.playing);
      this.playing = null;
      this.play.textContent = "▶";
      return;
    }
    const moments = (this.span?.marks ?? []).map(([at]) => at + 0.05);
    let place = 0;
    this.play.textContent = "■";
    this.playing = setInterval(() => {
      if (place >= moments.length) {
        this.replay();
        this.present();
      } else this.goTo(moments[place++]);
    }, 700);
  }

  // -- topics --------------------------------------------------------------------------------------------

  async search(text) {
    this.listed = Date.now();
    const found = await ask("topics", { search: text });
    if (!found) return;
    this.topicList.replaceChildren(...found.rows.slice(0, 40).map((row) => {
      const item = make("li", { class: row.topic === this.topic ? "chosen" : "" },
        make("button", { type: "button", class: "choose", "data-topic": row.topic },
          make("span", { class: `sign ${row.grade}` }, SIGNS[row.grade]),
          make("span", { class: "name" }, row.topic),
          make("span", { class: "figure" }, row.observed_ms === null ? "" : `${ms(row.observed_ms)} ms`)));
      item.firstChild.addEventListener("click", () => this.choose(row.topic === this.topic ? "" : row.topic));
      return item;
    }));
    if (found.matching > 40) this.topicList.append(make("li", { class: "hint" }, `… and ${number(found.matching - 40)} more`));
  }

  choose(topic) {
    this.topic = topic;
    this.topicView = null;
    this.way = "";
    if (this.closeTopic) this.closeTopic();
    this.closeTopic = null;
    history.replaceState(null, "", topic ? `/?topic=${encodeURIComponent(topic)}` : "/");
    if (topic)
      this.closeTopic = live("topic", topic, (document) => {
        this.topicView = document.view;
        this.told();
        this.redraw();
      }, () => {});
    this.told();
    this.search(this.searchBox.value);
    this.redraw();
  }

  told() {
    if (this.danger || this.aiming) return;
    if (!this.topicView) return this.detail.replaceChildren();
    const { row } = this.topicView;
    this.detail.replaceChildren(make("div", { class: "card" },
      make("div", { class: "card-title" }, make("a", { href: topicPage(row.topic) }, row.topic)),
      make("div", { class: `grade ${row.grade}` }, `${SIGNS[row.grade]} ${row.word}`),
      make("p", { class: "hint" }, "Choose a way to see its paths alone."),
      ...this.carrying().slice(0, 8).map((way) => {
        const key = `${way.source} → ${way.destination}`;
        const late = row.deadline_ms !== null && way.observed_ms > row.deadline_ms;
        const element = make("button", { type: "button", class: `way${key === this.way ? " chosen" : ""}`, "data-way": key },
          make("strong", {}, key),
          make("span", { class: late ? "late" : "" }, `${ms(way.observed_ms)} ms${row.deadline_ms === null ? "" : ` of ${ms(row.deadline_ms)}`}`),
          ...way.paths.map((path, place) => make("span", { class: "path" }, make("i", { class: `stroke kind${place % 3}` }), path.join(" → "))));
        element.addEventListener("click", () => {
          this.way = key === this.way ? "" : key;
          this.told();
          this.redraw();
        });
        return element;
      })));
  }

  // -- what if -------------------------------------------------------------------------------------------

  toggleWhatIf() {
    this.aiming = !this.aiming && !this.danger;
    if (!this.aiming) this.danger = null;
    this.whatIf.textContent = this.aiming || this.danger ? "End what if" : "What if …";
    this.frame.classList.toggle("aiming", this.aiming);
    this.detail.replaceChildren();
    if (this.aiming) this.detail.append(make("p", { class: "hint" }, "Drag a circle on the map: what would the loss of all within it do?"));
    else this.told();
    this.redraw();
  }

  async judge() {
    const { centre, radius } = this.danger;
    const found = await ask("danger", { latitude: centre[0], longitude: centre[1], radius_km: radius });
    if (!this.danger || !found) return;
    this.danger.found = found;
    this.detail.replaceChildren(make("div", { class: "card danger" },
      make("div", { class: "card-title" }, `A disaster of ${number(radius)} km`),
      found.problem ? make("p", { class: "hint" }, found.problem) : null,
      make("p", {}, `Inside: ${found.sites.join(", ") || "no site"}; ${number(found.links.length)} links cut`),
      make("div", { class: "outcomes" }, ...Object.entries(found.outcomes).filter(([, count]) => count)
        .map(([name, count]) => make("span", { class: "outcome" }, make("strong", {}, number(count)), ` ${name}`))),
      ...found.fates.slice(0, 12).map((fate) => make("div", { class: "way" },
        make("strong", {}, fate.topic), make("span", { class: fate.late ? "late" : "" }, fate.outcome),
        make("div", { class: "path" }, `${fate.source} → ${fate.destination}: ${fate.remaining.map((path) => path.join(" → ")).join("; ") || "nothing remains"}`)))));
    this.redraw();
  }

  pointer() {
    const at = (event) => {
      const box = this.svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let start = null;
    this.svg.addEventListener("pointerdown", (event) => {
      start = { point: at(event), zoom: { ...this.zoom }, moved: false };
      if (this.aiming) {
        this.svg.setPointerCapture(event.pointerId);
        event.preventDefault();
      }
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!start) return;
      const [x, y] = at(event);
      const moved = Math.hypot(x - start.point[0], y - start.point[1]);
      if (moved > 4) start.moved = true;
      if (this.aiming) {
        const centre = this.projection.place(start.point);
        this.danger = { centre, radius: Math.max(1, kilometres(centre, this.projection.place([x, y]))) };
        this.redraw();
      } else if (start.moved && event.pointerType === "mouse") {
        this.zoom = { ...start.zoom, x: start.zoom.x + x - start.point[0], y: start.zoom.y + y - start.point[1] };
        this.redraw();
      }
    });
    const end = () => {
      if (start && this.aiming && this.danger) {
        this.aiming = false;
        this.frame.classList.remove("aiming");
        this.judge();
      }
      if (start?.moved) this.dragged = Date.now();
      start = null;
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
    this.svg.addEventListener("click", (event) => {
      if (Date.now() - (this.dragged ?? 0) < 300) event.preventDefault();
    }, true);
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && this.frame.clientWidth < 700) return;
      event.preventDefault();
      const [x, y] = at(event);
      const factor = Math.max(0.5, Math.min(20, this.zoom.factor * Math.exp(-event.deltaY / 400)));
      const change = factor / this.zoom.factor;
      const [cx, cy] = [this.svg.clientWidth / 2, this.svg.clientHeight / 2];
      this.zoom = { factor, x: x - cx - change * (x - cx - this.zoom.x), y: y - cy - change * (y - cy - this.zoom.y) };
      this.redraw();
    }, { passive: false });
    this.svg.addEventListener("dblclick", () => {
      this.zoom = { factor: 1, x: 0, y: 0 };
      this.redraw();
    });
  }

  // -- drawing -------------------------------------------------------------------------------------------

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      if (this.shown) this.paint();
    });
  }

  paint() {
    const [width, height] = [this.frame.clientWidth, this.frame.clientHeight];
    if (!width || !height) return;
    set(this.svg, { viewBox: `0 0 ${width} ${height}`, width, height });
    const placed = this.shown.sites.filter((site) => site.place);
    this.projection = new Projection(placed.map((site) => site.place), width, height, this.zoom);
    this.points = this.layOut(width, height, placed);
    const where = `${width} ${height} ${this.zoom.factor} ${this.zoom.x} ${this.zoom.y} ${this.rings.length} ${placed.length}`;
    if (where !== this.where) {
      this.where = where;
      this.layers.land.replaceChildren(...(placed.length ? [draw("path", { d: land(this.projection, this.rings) })] : []));
    }
    this.paintRegions();
    this.paintLinks();
    this.paintPaths();
    this.paintSites(width, height);
  }

  // Sites without a place stand in a circle: of the whole frame if none has one, else of a corner.
  layOut(width, height, placed) {
    const points = new Map(placed.map((site) => [site.name, this.projection.point(site.place)]));
    const others = this.shown.sites.filter((site) => !site.place);
    const alone = placed.length === 0;
    const reach = alone ? 0.36 * Math.min(width, height) : Math.min(60, 14 * others.length);
    const centre = alone ? [width / 2, height / 2] : [reach + 30, height - reach - 50];
    others.forEach((site, place) => {
      const angle = 2 * Math.PI * place / others.length - Math.PI / 2;
      points.set(site.name, others.length === 1 && !alone ? centre
        : [centre[0] + reach * Math.cos(angle) * (alone ? width / height > 1.3 ? 1.3 : 1 : 1), centre[1] + reach * Math.sin(angle)]);
    });
    return points;
  }

  paintRegions() {
    this.layers.regions.replaceChildren(...this.shown.regions.map((region) =>
      draw("path", { class: "region", d: circle(this.projection, region.centre, region.radius_km) })));
    const circled = this.danger ? [draw("path", { class: "what-if", d: circle(this.projection, this.danger.centre, this.danger.radius) })] : [];
    this.layers.circle.replaceChildren(...circled);
  }

  course(link) {
    const ends = link.ends.map((name) => this.points.get(name));
    return ends[0] && ends[1] ? [ends[0], ...link.via.map((place) => this.projection.point(place)), ends[1]] : null;
  }

  line(link) {
    const course = this.course(link);
    return course ? bow(course) : "";
  }

  paintLinks() {
    const lost = new Set((this.danger?.found?.links ?? []).map(linkKey));
    const kept = (this.linkElements ??= new Map());
    let animated = 0;
    const seen = new Set();
    // Many links on a small map would be one patch of colour.
    const room = Math.sqrt(this.frame.clientWidth / (18 * this.shown.links.length));
    const thin = Math.min(1, Math.max(0.3, room));
    for (const link of this.shown.links) {
      const key = linkKey(link.ends);
      seen.add(key);
      let parts = kept.get(key);
      if (!parts) {
        parts = { anchor: draw("a", { href: storyOf(`link:${key}`), "data-link": key }), base: draw("path"), hit: draw("path", { class: "hit" }), flow: draw("path", { class: "flow" }) };
        parts.anchor.append(parts.base, parts.hit);
        parts.anchor.addEventListener("pointerenter", (event) => this.tipLink(parts.link, event));
        parts.anchor.addEventListener("pointerleave", () => { this.tip.hidden = true; });
        kept.set(key, parts);
        this.layers.links.append(parts.anchor);
        this.layers.flows.append(parts.flow);
      }
      parts.link = link;
      const d = this.line(link);
      const width = link.grade === "bad" ? 3 : thin * (1.6 + 5 * link.width);
      set(parts.base, { d, class: `link ${link.grade}${lost.has(key) ? " lost" : ""}`, "stroke-width": width.toFixed(1) });
      set(parts.anchor, { "data-grade": link.grade });
      set(parts.hit, { d });
      const moving = !STILL && link.width > 0 && link.grade !== "bad" && animated < MAX_ANIMATED;
      animated += moving ? 1 : 0;
      const way = link.load.first_bps >= link.load.second_bps ? "" : " reversed";
      set(parts.flow, { d: moving ? d : null, class: moving ? `flow${way}` : "flow off", "stroke-width": Math.max(1, 0.45 * width).toFixed(1) });
      const pace = moving ? `${(4.5 - 3.5 * link.width).toFixed(1)}s` : "";
      if (parts.flow.style.animationDuration !== pace) parts.flow.style.animationDuration = pace;
    }
    for (const [key, parts] of kept)
      if (!seen.has(key)) {
        parts.anchor.remove();
        parts.flow.remove();
        kept.delete(key);
      }
  }

  paintPaths() {
    const routes = this.past
      ? this.past.routes.filter((route) => route.topic === this.topic).map((route, place) => ({ path: route.path, place }))
      : this.carrying().filter((way) => !this.way || this.way === `${way.source} → ${way.destination}`).flatMap((way) => way.paths.map((path, place) => ({ path, place })));
    const byEnds = new Map(this.shown.links.map((link) => [linkKey(link.ends), link]));
    const drawn = new Map();
    routes.slice(0, 60).forEach(({ path, place }) => {
      for (let hop = 0; hop + 1 < path.length; hop++) {
        const [from, to] = [path[hop], path[hop + 1]];
        const forward = from < to;
        const link = byEnds.get(forward ? `${from}--${to}` : `${to}--${from}`);
        if (link) drawn.set(`${from}--${to}`, { d: this.line(link), forward, kind: place % 3 });
      }
    });
    this.svg.classList.toggle("choosing", routes.length > 0);
    const kept = (this.pathElements ??= new Map());
    for (const [key, { d, forward, kind }] of drawn) {
      const element = kept.get(key) ?? draw("path");
      if (!kept.has(key)) {
        kept.set(key, element);
        this.layers.paths.append(element);
      }
      set(element, { d, class: `path kind${kind}${forward ? "" : " reversed"}${STILL ? " still" : ""}`, "data-hop": key });
    }
    for (const [key, element] of kept)
      if (!drawn.has(key)) {
        element.remove();
        kept.delete(key);
      }
  }

  // Ways on which messages arrive; before any does, all that there are.
  carrying() {
    const ways = this.topicView?.ways ?? [];
    const used = ways.filter((way) => way.observed_ms !== null);
    return used.length ? used : ways;
  }

  paintSites(width, height) {
    const struck = new Set(this.danger?.found?.sites ?? []);
    const radius = this.shown.sites.length > 25 ? 5 : 7;
    const kept = (this.siteElements ??= new Map());
    const seen = new Set();
    const labels = [];
    const taken = [...this.points.values()].map(([x, y]) => [x - radius, y - radius, x + radius, y + radius]);
    const lines = this.shown.links.flatMap((link) => nearEnds(this.course(link) ?? []));
    const ordered = [...this.shown.sites].sort((a, b) => (b.grade === "bad") - (a.grade === "bad"));
    for (const site of ordered) {
      const [x, y] = this.points.get(site.name);
      const parts = kept.get(site.name) ?? this.siteParts(site.name, kept);
      seen.add(site.name);
      parts.site = site;
      set(parts.anchor, { "data-grade": site.grade, class: `site ${site.grade}${struck.has(site.name) ? " struck" : ""}` });
      set(parts.halo, { cx: x.toFixed(1), cy: y.toFixed(1), r: radius + 5 });
      set(parts.dot, { cx: x.toFixed(1), cy: y.toFixed(1), r: radius });
      set(parts.sign, { x: x.toFixed(1), y: (y + 3.5).toFixed(1) });
      const sign = site.grade === "good" ? "" : SIGNS[site.grade];
      if (parts.sign.textContent !== sign) parts.sign.textContent = sign;
      const long = 6.6 * site.name.length + 4;
      const places = [[x + radius + 6, y + 4, "start"], [x - radius - 6, y + 4, "end"], [x, y - radius - 8, "middle"], [x, y + radius + 16, "middle"]];
      let best = null;
      for (const [tx, ty, side] of places) {
        const left = side === "start" ? tx : side === "end" ? tx - long : tx - long / 2;
        const box = [left, ty - 12, left + long, ty + 4];
        const free = box[0] > 2 && box[2] < width - 2 && box[1] > 2 && box[3] < height - 2 &&
          !taken.some((each) => box[0] < each[2] && box[2] > each[0] && box[1] < each[3] && box[3] > each[1]);
        if (!free) continue;
        const crossed = lines.filter(([px, py]) => px > box[0] && px < box[2] && py > box[1] && py < box[3]).length;
        if (!best || crossed < best.crossed) best = { crossed, box, tx, ty, side };
        if (!crossed) break;
      }
      if (best) {
        taken.push(best.box);
        labels.push(draw("text", { class: "label", x: best.tx, y: best.ty, "text-anchor": best.side }, site.name));
      }
    }
    this.layers.labels.replaceChildren(...labels);
    for (const [name, parts] of kept)
      if (!seen.has(name)) {
        parts.anchor.remove();
        kept.delete(name);
      }
  }

  siteParts(name, kept) {
    const parts = { halo: draw("circle", { class: "halo" }), dot: draw("circle", { class: "dot" }), sign: draw("text", { class: "sign" }) };
    parts.anchor = draw("a", { href: storyOf(`site:${name}`), "data-site": name }, parts.halo, parts.dot, parts.sign);
    parts.anchor.addEventListener("pointerenter", (event) => this.tipSite(parts.site, event));
    parts.anchor.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    kept.set(name, parts);
    this.layers.sites.append(parts.anchor);
    return parts;
  }

  // -- tips ----------------------------------------------------------------------------------------------

  tipAt(event, ...lines) {
    this.tip.replaceChildren(...lines);
    this.tip.hidden = false;
    const box = this.frame.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    this.tip.style.left = `${Math.max(8, Math.min(x + 14, box.width - this.tip.offsetWidth - 8))}px`;
    this.tip.style.top = `${Math.max(8, Math.min(y + 14, box.height - this.tip.offsetHeight - 8))}px`;
  }

  tipLink(link, event) {
    const figures = link.rtt_ms === null ? [] : [
      `${ms(link.rtt_ms)} ms there and back`,
      `${link.ends[0]} → ${bits(link.load.first_bps)}, ${link.ends[1]} → ${bits(link.load.second_bps)}`,
      `up ${share(link.availability)} of the time, ${number(link.failures)} failures`];
    this.tipAt(event, make("strong", {}, link.ends.join(" – ")),
      make("span", { class: `grade ${link.grade}` }, `${SIGNS[link.grade]} ${link.word}`), ...figures.map((text) => make("span", {}, text)));
  }

  tipSite(site, event) {
    const figures = [`${site.brokers_up} of ${site.brokers} brokers`, `${number(site.sent_s)} sent, ${number(site.delivered_s)} delivered a second`];
    this.tipAt(event, make("strong", {}, site.name), make("span", { class: `grade ${site.grade}` }, `${SIGNS[site.grade]} ${WORDS[site.grade]}`),
      ...site.troubles.map((text) => make("span", {}, text)), ...(this.past ? [] : figures.map((text) => make("span", {}, text))));
  }
}
