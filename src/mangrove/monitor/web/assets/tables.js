// Topics, a topic, brokers, story and plans.
import { Rows, SIGNS, badge, bits, clock, make, ms, nearly, number, section, share, size, storyOf, topicPage } from "./dom.js";
import { delayChart } from "./chart.js";
import { ask } from "./live.js";

const meter = (value) => {
  if (value === null || value === undefined) return make("span", { class: "muted" }, "–");
  const grade = value > 0.9 ? "bad" : value > 0.7 ? "doubt" : "good";
  const bar = make("i", { class: `fill ${grade}` });
  bar.style.width = `${Math.min(100, 100 * value)}%`;
  return make("span", { class: "meter" }, make("span", { class: "bar" }, bar), make("b", {}, share(value)));
};

const against = (value, limit) => make("span", { class: limit !== null && value !== null && value > limit ? "over" : "" }, ms(value));

const TOPIC_COLUMNS = [
  { name: "state", cell: (row) => badge(row.grade, row.word, `topic:${row.topic}`), mark: (row) => row.grade + row.word, wide: true },
  { name: "topic", cell: (row) => make("a", { href: topicPage(row.topic), class: "strong" }, row.topic), mark: (row) => row.topic, wide: true },
  { name: "deadline", cell: (row) => ms(row.deadline_ms), number: true, hint: "milliseconds that the contract allows" },
  { name: "predicted", cell: (row) => ms(row.predicted_ms), number: true, hint: "of the slowest route in use, in ms" },
  { name: "p50", cell: (row) => against(row.p50_ms, row.deadline_ms), mark: (row) => `${row.p50_ms} ${row.deadline_ms}`, number: true, hint: "half of the recent frames took no longer from publisher to subscribers, in ms; of the slowest way" },
  { name: "p99", cell: (row) => against(row.p99_ms, row.deadline_ms), mark: (row) => `${row.p99_ms} ${row.deadline_ms}`, number: true, hint: "all but one of a hundred recent frames took no longer, in ms; of the slowest way" },
  { name: "in time", cell: (row) => nearly(row.in_time), number: true, hint: "share of the frames of the last five minutes that came before their deadline" },
  { name: "late", cell: (row) => number(row.late), number: true, hint: "frames that came after their deadline since the gateways started" },
  { name: "lost", cell: (row) => number(row.lost), number: true, hint: "messages that gateways dropped since they started, for any reason" },
  { name: "spare", cell: (row) => number(row.copies), number: true, hint: "frames that came again by another path and were not delivered again; with two paths that is every frame, and as it should be" },
  { name: "paths", cell: (row) => `${row.paths} / ${row.paths_asked}`, number: true, hint: "that exist, of those that are asked for" },
  { name: "msg/s", cell: (row) => number(row.sent_s), number: true, hint: "messages that leave their domains in a second" },
  { name: "sent", cell: (row) => number(row.sent), number: true, hint: "messages that left their domains since the gateways started" },
  { name: "delivered", cell: (row) => number(row.delivered), number: true, hint: "messages that came to other domains since the gateways started; what goes to three is counted three times" },
];

export class TopicsPage {
  constructor(root) {
    this.counts = make("p", { class: "hint" });
    this.box = make("input", { type: "search", placeholder: "Find a topic", maxlength: 100, "aria-label": "find a topic" });
    this.box.addEventListener("input", () => this.refresh());
    this.rows = new Rows(TOPIC_COLUMNS, (row) => row.topic);
    root.append(section("Topics", "What contracts ask for beside what they get, the most troubled first. Delays (in ms), in time, late and spare are counted by frame: messages that left together, and came together. All else is counted by message.",
      make("div", { class: "line" }, this.box, this.counts), this.rows.element));
  }

  async refresh() {
    const found = this.box.value ? await ask("topics", { search: this.box.value }) : this.view;
    if (!found) return;
    const more = found.matching > found.rows.length ? `, ${number(found.rows.length)} shown` : "";
    this.counts.textContent = `${number(found.matching)} of ${number(found.total)} topics${more}`;
    this.rows.show(found.rows);
  }

  show(document) {
    this.view = document.view;
    if (this.view) this.refresh();
  }
}

export class TopicPage {
  constructor(root, subject) {
    this.subject = subject;
    this.root = root;
    this.top = make("div");
    this.ways = new Rows([
      { name: "way", cell: (way) => make("span", { class: "strong" }, `${way.source} → ${way.destination}`), mark: (way) => way.source + way.destination, wide: true },
      { name: "state", cell: (way) => badge(way.grade, way.unmet || (way.by_table ? "by table" : "own routes"), `topic:${this.subject}`), mark: (way) => way.grade + way.unmet + way.by_table, wide: true },
      { name: "paths", cell: (way) => make("span", {}, ...way.paths.map((path) => make("div", { class: "path" }, path.join(" → ")))), mark: (way) => JSON.stringify(way.paths), wide: true },
      { name: "predicted", cell: (way) => ms(way.predicted_ms), number: true },
      { name: "now", cell: (way) => ms(way.observed_ms), number: true, hint: "smoothed over the last frames, in ms" },
      { name: "p50", cell: (way) => ms(way.p50_ms), number: true, hint: "of recent frames, in ms" },
      { name: "p99", cell: (way) => ms(way.p99_ms), number: true, hint: "of recent frames, in ms" },
      { name: "in time", cell: (way) => nearly(way.in_time), number: true, hint: "share of all frames since the gateway started" },
      { name: "late", cell: (way) => number(way.late), number: true, hint: "frames" },
      { name: "spare", cell: (way) => number(way.copies), number: true, hint: "frames that came again by another path and were not delivered again" },
    ], (way) => `${way.source} ${way.destination}`);
    this.chart = make("div");
    this.more = make("div", { class: "facts" });
    root.append(section(subject, null, this.top),
      section("Delay", "Of the slowest way in the last five minutes, smoothed, in milliseconds: from publisher to subscribers in another domain.", this.chart),
      section("Ways", "From where to where it travels, and along which paths.", this.ways.element), section("Contract", null, this.more));
  }

  show({ view }) {
    if (!view) return this.top.replaceChildren(make("p", { class: "hint" }, "There is no topic of that name in this federation."));
    const { row } = view;
    this.top.replaceChildren(make("div", { class: "line" }, badge(row.grade, row.word, `topic:${row.topic}`),
      make("a", { class: "tool", href: `/?topic=${encodeURIComponent(row.topic)}` }, "on the map")),
    make("div", { class: "figures" }, ...[["deadline", row.deadline_ms === null ? "none" : `${ms(row.deadline_ms)} ms`], ["predicted", `${ms(row.predicted_ms)} ms`],
      ["observed now", `${ms(row.observed_ms)} ms`, row.observed_ms], ["p50", `${ms(row.p50_ms)} ms`, row.p50_ms], ["p99", `${ms(row.p99_ms)} ms`, row.p99_ms],
      ["in time", nearly(row.in_time)], ["late frames", number(row.late)], ["lost messages", number(row.lost)], ["spare copies", number(row.copies)],
      ["sent", `${number(row.sent_s, 1)}/s`], ["delivered", `${number(row.delivered_s, 1)}/s`],
      ["sent in all", number(row.sent)], ["delivered in all", number(row.delivered)]]
      .map(([name, value, delay]) => make("div", { class: "figure-card", "data-figure": name }, make("span", {}, name),
        make("b", { class: delay && row.deadline_ms !== null && delay > row.deadline_ms ? "over" : "" }, value)))));
    this.chart.replaceChildren(delayChart(view.history, row, this.chart.clientWidth));
    this.ways.show(view.ways);
    const facts = [...Object.entries(view.contract), ...Object.entries(view.drops).map(([why, count]) => [`dropped: ${why}`, number(count)]),
      ...view.subjects.map(([topic, rate]) => [topic, `${number(rate, 1)} msg/s`])];
    this.more.replaceChildren(...facts.map(([name, value]) => make("div", { class: "fact" }, make("span", {}, name), make("b", {}, value))));
  }
}

export class BrokersPage {
  constructor(root) {
    this.rows = new Rows([
      { name: "state", cell: (row) => badge(row.grade, row.state, `broker:${row.broker}`), mark: (row) => row.grade + row.state, wide: true },
      { name: "broker", cell: (row) => make("span", { class: "strong" }, row.broker), mark: (row) => row.broker, wide: true },
      { name: "role", cell: (row) => row.role },
      { name: "Ui", cell: (row) => meter(row.input), mark: (row) => row.input, number: true, hint: "bytes in, of what it can take" },
      { name: "Uo", cell: (row) => meter(row.output), mark: (row) => row.output, number: true, hint: "bytes out, of what it can give" },
      { name: "Um", cell: (row) => meter(row.matching), mark: (row) => row.matching, number: true, hint: "messages matched, of what it can match" },
      { name: "headroom", cell: (row) => share(row.headroom), number: true, hint: "up to the high threshold" },
      { name: "in/s", cell: (row) => number(row.messages_in_s), number: true },
      { name: "out/s", cell: (row) => number(row.messages_out_s), number: true },
      { name: "clients", cell: (row) => number(row.connections), number: true },
      { name: "pending", cell: (row) => size(row.pending_bytes), number: true },
      { name: "cpu", cell: (row) => `${number(row.cpu_percent, 1)}%`, number: true },
      { name: "memory", cell: (row) => size(row.memory_bytes), number: true },
    ], (row) => row.broker);
    this.domains = new Rows([
      { name: "domain", cell: (row) => make("a", { class: "strong", href: storyOf(`site:${row.domain}`) }, row.domain), mark: (row) => row.domain, wide: true },
      { name: "leader", cell: (row) => `${row.leader || "nobody"}, term ${row.term}`, wide: true },
      { name: "decisions", cell: (row) => (row.paused ? `paused ${row.paused}` : "automatic") },
      { name: "congestion", cell: (row) => row.congestion, wide: true },
      { name: "clients", cell: (row) => number(row.clients), number: true },
      { name: "records", cell: (row) => number(row.records), number: true, hint: "of the directory" },
      { name: "mirrored", cell: (row) => number(row.mirrored), number: true },
      { name: "moves", cell: (row) => number(row.moves), number: true, hint: "subscriptions and publishers moved since the agent started" },
    ], (row) => row.domain);
    this.sessions = new Rows([
      { name: "session", cell: (row) => row.id },
      { name: "broker", cell: (row) => make("a", { class: "strong", href: storyOf(`broker:${row.broker}`) }, row.broker), mark: (row) => row.broker, wide: true },
      { name: "state", cell: (row) => row.outcome || row.state, wide: true },
      { name: "moves", cell: (row) => row.moves || "–", wide: true },
      { name: "for", cell: (row) => `${number(row.since_s)} s`, number: true },
    ], (row) => `${row.domain} ${row.id}`);
    this.limits = new Rows([
      { name: "topic", cell: (row) => make("a", { class: "strong", href: storyOf(`topic:${row.topic}`) }, row.topic), mark: (row) => row.topic, wide: true },
      { name: "domain", cell: (row) => row.domain },
      { name: "utility", cell: (row) => share(row.utility), number: true },
      { name: "importance", cell: (row) => share(row.importance), number: true },
      { name: "subscribers", cell: (row) => number(row.subscribers), number: true },
      { name: "offered", cell: (row) => `${number(row.offered_msg_s)}/s`, number: true },
      { name: "allowed", cell: (row) => (row.allowed_msg_s === null ? (row.protected ? "protected" : "all") : `${number(row.allowed_msg_s)}/s`), number: true },
    ], (row) => `${row.domain} ${row.topic}`);
    this.directory = new Rows([
      { name: "topic", cell: (row) => make("span", { class: "strong" }, row.topic), mark: (row) => row.topic, wide: true },
      { name: "published in", cell: (row) => row.published_in.join(", ") || "–", wide: true },
      { name: "primary", cell: (row) => row.primary || "–", wide: true },
      { name: "mirror", cell: (row) => row.mirror || "–" },
      { name: "subscribers", cell: (row) => number(row.subscribers), number: true },
      { name: "decided by", cell: (row) => (row.decision ? make("a", { href: storyOf(`event:${row.decision}`) }, row.decision) : "–"), mark: (row) => row.decision },
    ], (row) => `${row.domain} ${row.topic}`);
    this.domain = make("select", { "aria-label": "domain" });
    this.pattern = make("input", { type: "search", placeholder: "topic or pattern", maxlength: 200 });
    const look = make("button", { type: "button", class: "tool" }, "Look up");
    look.addEventListener("click", () => this.lookUp());
    this.domain.addEventListener("change", () => this.lookUp());
    this.found = make("p", { class: "hint" });
    this.sessionsPanel = section("Offload sessions", "Overloaded brokers hand topics to others.", this.sessions.element);
    this.limitsPanel = section("Usefulness and limits in force", "What subscribers think of topics, and how much of each may be said.", this.limits.element);
    this.note = make("p", { class: "hint" });
    root.append(section("Brokers", "Shares of capacity for bytes in (Ui), bytes out (Uo) and matching (Um).", this.note, this.rows.element),
      section("Agents", null, this.domains.element), this.sessionsPanel, this.limitsPanel,
      section("Directory", "Which broker serves a topic, and by which decision.", make("div", { class: "line" }, this.domain, this.pattern, look), this.found, this.directory.element));
  }

  show({ view }) {
    if (!view) return;
    this.rows.show(view.rows);
    const unknown = view.rows.every((row) => row.input === null);
    this.note.textContent = unknown ? "No broker's capacity is known, so shares are not: state it in the federation file, or let `mangrove pipeline calibrate` find it." : "";
    this.domains.show(view.domains);
    this.sessions.show(view.sessions);
    this.limits.show(view.limits);
    this.sessionsPanel.hidden = view.sessions.length === 0;
    this.limitsPanel.hidden = view.limits.length === 0;
    const names = view.domains.map((row) => row.domain);
    if (names.join() !== this.names) {
      this.names = names.join();
      this.domain.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
      if (names.length) this.lookUp();
    }
  }

  async lookUp() {
    const rows = await ask("directory", { domain: this.domain.value, topic: this.pattern.value });
    this.found.textContent = rows === null ? "No agent answers there." : rows.length ? "" : "Nothing of that kind.";
    this.directory.show(rows ?? []);
  }
}

const NOTABLE = "notable";

export class StoryPage {
  constructor(root, subject) {
    this.list = make("ol", { class: "story" });
    this.note = make("p", { class: "hint" });
    const about = subject.replace(/^\w+:/, "").replace("--", " – ");
    const all = !subject || subject === NOTABLE;
    const tab = (name, address, chosen) => make("a", { class: `tool${chosen ? " pressed" : ""}`, href: address }, name);
    root.append(section(all ? "Story" : `Why: ${about}`, all ? "What happened, and because of what. Choose an event to see its causes and consequences alone." : null,
      make("div", { class: "line" }, tab("all events", "/story", !subject), tab("without routine", `/story?about=${NOTABLE}`, subject === NOTABLE)), this.note, this.list));
  }

  show({ view }) {
    if (!view) return;
    const mark = JSON.stringify(view.lines.map((line) => line.id));
    this.note.textContent = view.problem || (view.lines.length ? "" : "Nothing has happened yet.");
    if (mark === this.mark) return;
    this.mark = mark;
    const because = view.about !== "" && view.about !== NOTABLE;
    const lines = because ? view.lines : [...view.lines].reverse();
    this.list.replaceChildren(...lines.map((line) => {
      const item = make("li", { class: `event ${line.tone}${line.chosen ? " chosen" : ""}`, "data-event": line.id },
        make("span", { class: "when" }, clock(line.at, true)),
        make("span", { class: "where" }, line.where),
        make("a", { class: "words", href: storyOf(`event:${line.id}`) }, line.words),
        line.cause ? make("a", { class: "cause", href: storyOf(`event:${line.cause}`) }, `← ${line.cause}`) : null);
      item.style.setProperty("--depth", because ? Math.min(line.depth, 8) : 0);
      return item;
    }));
  }
}

const risk = (value) => (value === null || value === undefined ? "–" : value < 1e-4 && value > 0 ? value.toExponential(1) : number(100 * value, 2) + "%");

export class PlansPage {
  constructor(root) {
    this.root = root;
    this.note = section("Plans", "Which plan is in force in each domain, how probable an overload is, and what is proposed.", make("p", { class: "hint" }, "asking …"));
    root.append(this.note);
    this.panels = new Map();
  }

  show({ view }) {
    if (!view || !view.domains.length) return;
    this.note.lastChild.textContent = "";
    for (const domain of view.domains) {
      const mark = JSON.stringify(domain);
      const known = this.panels.get(domain.domain);
      if (known?.mark === mark) continue;
      const panel = this.panel(domain);
      if (known) known.panel.replaceWith(panel);
      else this.root.append(panel);
      this.panels.set(domain.domain, { mark, panel });
    }
  }

  panel(domain) {
    const table = (columns, rows, key) => {
      const made = new Rows(columns, key);
      made.show(rows);
      return made.element;
    };
    const parts = [];
    if (domain.progress !== null) parts.push(meter(domain.progress));
    if (domain.rollout) parts.push(make("p", {}, domain.rollout));
    if (domain.risks.length)
      parts.push(table([
        { name: "broker", cell: (row) => make("span", { class: "strong" }, row.broker), mark: (row) => row.broker, wide: true },
        { name: "risk of overload", cell: (row) => badge(row.grade, risk(row.risk), `broker:${row.broker}`), mark: (row) => row.risk },
        { name: "items", cell: (row) => number(row.items), number: true }, { name: "topics", cell: (row) => number(row.topics), number: true },
        { name: "mirrors", cell: (row) => number(row.mirrors), number: true }], domain.risks, (row) => row.broker));
    if (domain.proposed.length)
      parts.push(make("h3", {}, "Proposed"), table([
        { name: "plan", cell: (row) => make("span", { class: "strong" }, row.name), mark: (row) => row.name, wide: true },
        { name: "topics move", cell: (row) => number(row.moves), number: true },
        { name: "risk now", cell: (row) => risk(row.risk_before), number: true }, { name: "risk then", cell: (row) => risk(row.risk_after), number: true },
        { name: "note", cell: (row) => row.problem || "may be applied", wide: true }], domain.proposed, (row) => row.name));
    if (domain.items.length)
      parts.push(make("h3", {}, "Items"), table([
        { name: "item", cell: (row) => row[0], wide: true }, { name: "topics", cell: (row) => number(row[1]), number: true },
        { name: "broker", cell: (row) => row[2] }, { name: "mirror", cell: (row) => row[3] || "–" }], domain.items, (row) => row[0]));
    if (domain.history.length)
      parts.push(make("h3", {}, "History"), table([
        { name: "version", cell: (row) => number(row.version) + (row.in_force ? " (in force)" : "") }, { name: "since", cell: (row) => clock(row.since) },
        { name: "what", cell: (row) => row.what, wide: true }, { name: "by", cell: (row) => row.by, wide: true }, { name: "risk", cell: (row) => risk(row.risk), number: true },
        { name: "outcome", cell: (row) => row.outcome || "–", wide: true }], domain.history, (row) => String(row.version)));
    const panel = section(domain.domain, domain.headline, domain.policy ? make("p", { class: "hint" }, `policy: ${domain.policy}`) : null, ...parts);
    panel.dataset.domain = domain.domain;
    if (!parts.length) panel.classList.add("small");
    return panel;
  }
}
