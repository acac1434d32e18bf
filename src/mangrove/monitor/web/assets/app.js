// Finds out which page this is, and keeps it up to date.
import { SIGNS, make } from "./dom.js";
import { live } from "./live.js";
import { MapPage } from "./map.js";
import { BrokersPage, PlansPage, StoryPage, TopicPage, TopicsPage } from "./tables.js";

const PAGES = { map: MapPage, topics: TopicsPage, topic: TopicPage, brokers: BrokersPage, story: StoryPage, plans: PlansPage };

function headline(document) {
  const place = window.document.getElementById("headline");
  const { head } = document;
  if (!head) return place.replaceChildren(make("span", { class: "unknown" }, "no federation"));
  const figure = (name, [well, all]) =>
    make("span", { class: "count", "data-count": name }, make("b", { class: well < all ? "short" : "" }, well === all ? String(all) : `${well}/${all}`), ` ${name}`);
  place.replaceChildren(make("span", { class: `pill ${head.grade}` }, `${SIGNS[head.grade]} ${head.federation}`),
    figure("sites", head.sites), figure("links", head.links), figure("topics", head.topics));
}

function banner(text) {
  let place = document.getElementById("banner");
  if (!text) return place?.remove();
  if (!place) {
    place = make("div", { id: "banner", class: "banner", role: "status" });
    document.body.append(place);
  }
  place.textContent = text;
}

function theme() {
  const dark = () => document.documentElement.dataset.theme === "dark";
  const apply = () => window.Quasar?.Dark.set(dark());
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("mangrove-theme", document.documentElement.dataset.theme);
    apply();
  });
  apply();
}

function start(root) {
  theme();
  const page = root.dataset.page;
  const subject = decodeURIComponent(root.dataset.subject);
  const shown = PAGES[page] ? new PAGES[page](root, subject) : null;
  // Who acts has to know which plans are proposed.
  live(shown ? page : "plans", page === "map" || !shown ? "" : subject, (document) => {
    banner(document.problem);
    headline(document);
    if (shown) shown.show(document);
    window.document.documentElement.dataset.version = document.version;
  }, banner);
}

const waiting = setInterval(() => {
  const root = document.getElementById("page");
  if (!root || !document.getElementById("theme")) return;
  clearInterval(waiting);
  start(root);
}, 20);
