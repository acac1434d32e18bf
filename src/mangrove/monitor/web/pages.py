"""The pages: a frame by NiceGUI around what scripts draw from the live documents."""

from __future__ import annotations

from importlib.resources import files
from urllib.parse import quote

from nicegui import ui

from mangrove.monitor.web.act_page import act_page
from mangrove.monitor.web.actions import Actions
from mangrove.monitor.web.rendering import Renderer

SECTIONS = (
    ("/", "Map"),
    ("/topics", "Topics"),
    ("/brokers", "Brokers"),
    ("/story", "Story"),
    ("/plans", "Plans"),
)
ACT = ("/act", "Act")
ASSETS = "/assets"
MAX_NAME = 200
FAVICON = files("mangrove.monitor.web").joinpath("assets", "favicon.svg").read_text()


def add_pages(renderer: Renderer, actions: Actions | None) -> None:
    """Define all pages; without `actions` nobody sees that there might be any."""

    @ui.page("/", title="Map · Mangrove")
    def map_page(topic: str = "") -> None:
        _frame("/", "map", topic, actions)

    @ui.page("/topics", title="Topics · Mangrove")
    def topics_page() -> None:
        _frame("/topics", "topics", "", actions)

    @ui.page("/topic", title="Topic · Mangrove")
    def topic_page(name: str = "") -> None:
        _frame("/topics", "topic", name, actions)

    @ui.page("/brokers", title="Brokers · Mangrove")
    def brokers_page() -> None:
        _frame("/brokers", "brokers", "", actions)

    @ui.page("/story", title="Story · Mangrove")
    def story_page(about: str = "") -> None:
        _frame("/story", "story", about, actions)

    @ui.page("/plans", title="Plans · Mangrove")
    def plans_page() -> None:
        _frame("/plans", "plans", "", actions)

    if actions is not None:

        @ui.page("/act", title="Act · Mangrove")
        def acting_page() -> None:
            _frame("/act", "act", "", actions)
            act_page(renderer, actions)


def _frame(current: str, page: str, subject: str, actions: Actions | None) -> None:
    """Header, and the place where the page's script draws."""
    ui.add_head_html(
        f'<link rel="stylesheet" href="{ASSETS}/style.css">'
        f'<script src="{ASSETS}/theme.js"></script>'
        f'<script type="module" src="{ASSETS}/app.js"></script>'
    )
    with ui.element("header").classes("bar"):
        with ui.element("a").props('href="/"').classes("brand"):
            ui.element("span").classes("mark")
            with ui.element("span").classes("brand-name"):
                ui.label("Mangrove")
        with ui.element("nav").classes("sections"):
            for address, name in (*SECTIONS, *((ACT,) if actions is not None else ())):
                link = ui.element("a").props(f'href="{address}"').classes("section")
                link.classes("current" if address == current else "")
                with link:
                    ui.label(name)
        ui.element("div").props("id=headline").classes("headline")
        with ui.element("button").props('id=theme type=button aria-label="light or dark"').classes("theme"):
            ui.label("◐")
    place = ui.element("main").props(f'id=page data-page="{page}" data-subject="{quote(subject[:MAX_NAME])}"')
    place.classes(f"page page-{page}")
