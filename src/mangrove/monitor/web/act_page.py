"""The page for operators: each action asks first, and says what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from mangrove.errors import InputError, MangroveError
from mangrove.model.endpoints import Runtime
from mangrove.monitor.view.wording import name_key
from mangrove.monitor.web.actions import Actions, Fault
from mangrove.monitor.web.rendering import Renderer

Act = Callable[[Runtime], Awaitable[str]]
Ask = Callable[[], tuple[str, Act] | Awaitable[tuple[str, Act]]]
"""What is asked before acting, and what is done then; it may have to be looked up first."""

MAX_NOTE = 300
LOOK_EVERY_S = 0.5


def act_page(renderer: Renderer, actions: Actions) -> None:
    """Build the page for one browser."""
    with ui.element("section").classes("act"):
        ui.label("Act").classes("title")
        ui.label(f"As {actions.by}. Every action is confirmed first and written to the audit log.").classes(
            "hint"
        )
        place = ui.element("div")
    if renderer.snapshot.runtime is None:
        with place:
            ui.label("No federation runs yet: its actions appear here when it does.").classes("hint")

    def build() -> None:
        runtime = renderer.snapshot.runtime
        if runtime is not None:
            waiting.cancel()
            place.clear()
            with place:
                _Desk(renderer, actions, runtime).build()

    waiting = ui.timer(LOOK_EVERY_S, build)


class _Desk:
    def __init__(self, renderer: Renderer, actions: Actions, runtime: Runtime) -> None:
        self._renderer = renderer
        self._actions = actions
        self._runtime = runtime

    def build(self) -> None:
        """All cards."""
        with ui.element("div").classes("cards"):
            if self._runtime.agents:
                self._agents()
                self._plans()
            if self._runtime.wan_control is not None and self._actions.emulates:
                self._links()

    def _agents(self) -> None:
        domains = list(self._runtime.domains)
        with self._card("Agents", "Have the agents of a domain decide nothing by themselves, or go on."):
            domain = self._choice("domain", "agents-domain", domains)
            with ui.element("div").classes("buttons"):
                self._button("Pause", "pause", lambda: self._pause(str(domain.value), True))
                self._button("Resume", "resume", lambda: self._pause(str(domain.value), False))
        several = [name for name in domains if len(self._runtime.federation.domains[name].hosts) > 1]
        if several:
            with self._card("Lead", "Have an agent on another host lead its domain."):
                led = self._choice("domain", "lead-domain", several)
                to = self._choice("to", "lead-to", self._hosts(several[0]))
                led.on_value_change(lambda: to.set_options(self._hosts(str(led.value)), value=""))
                with ui.element("div").classes("buttons"):
                    self._button(
                        "Hand over", "hand-over", lambda: self._hand_over(str(led.value), str(to.value or ""))
                    )

    def _hosts(self, domain: str) -> dict[str, str]:
        hosts = self._runtime.federation.domains[domain].hosts
        return {"": "whoever is next", **{each.name: each.name for each in hosts}}

    def _pause(self, domain: str, paused: bool) -> tuple[str, Act]:
        verb = "Pause" if paused else "Resume"
        return f"{verb} automatic decisions in {domain}?", lambda runtime: self._actions.pause(
            runtime, domain, paused
        )

    def _hand_over(self, domain: str, to: str) -> tuple[str, Act]:
        whom = f"the agent on {to}" if to else "the next agent"
        return f"Hand the lead of {domain} to {whom}?", lambda runtime: self._actions.hand_over(
            runtime, domain, to
        )

    def _plans(self) -> None:
        domains = list(self._runtime.domains)
        with self._card(
            "Plans", "Put a plan in force that an agent has found and proposes (see the page Plans)."
        ):
            domain = self._choice("domain", "plans-domain", domains)
            plan = self._choice("proposed plan", "plan", {})

            def look() -> None:
                told = self._renderer.plans.get(str(domain.value))
                found = () if told is None else told.proposed
                names = {each.name: name_key(each.name) for each in found if not each.problem}
                if names != plan.options:
                    kept = plan.value if plan.value in names else next(iter(names), None)
                    plan.set_options(names, value=kept)

            domain.on_value_change(look)
            ui.timer(LOOK_EVERY_S, look)  # leaders are asked, for all pages at once, while one is open
            with ui.element("div").classes("buttons"):
                self._button("Apply", "apply", lambda: self._apply(str(domain.value), str(plan.value or "")))

    async def _apply(self, domain: str, name: str) -> tuple[str, Act]:
        if not name:
            raise InputError(f"no plan of {domain} is chosen")
        preview = await self._actions.preview(self._runtime, domain, name)
        count = len(preview.moves) + preview.more_moves
        before = "unknown" if preview.joint_before is None else f"{1 - preview.joint_before:.3g}"
        return (
            f"Put {name_key(name)} in force in {domain}? {count} topics move with {preview.subscriptions} "
            f"subscriptions; risk of overload {before} → {1 - preview.joint_after:.3g}.",
            lambda runtime: self._actions.apply(runtime, domain, name),
        )

    def _links(self) -> None:
        links = {"--".join(link.pair): " – ".join(link.pair) for link in self._runtime.federation.links}
        if not links:
            return
        with self._card(
            "Links of the testbed", "These links are emulated: cut one, slow it down, or heal it."
        ):
            link = self._choice("link", "link", links)
            with ui.element("div").classes("buttons"):
                for fault in Fault:
                    self._fault_button(fault, link)

    def _fault_button(self, fault: Fault, link: ui.select) -> None:
        text = fault.value.capitalize()
        self._button(text, f"link-{fault.value}", lambda: self._fault(str(link.value), fault))

    def _fault(self, pair: str, fault: Fault) -> tuple[str, Act]:
        first, _, second = pair.partition("--")
        return (
            f"{fault.value.capitalize()} the link {first} – {second}?",
            lambda runtime: self._actions.fault(runtime, first, second, fault),
        )

    @staticmethod
    def _choice(label: str, mark: str, options: list[str] | dict[str, str]) -> ui.select:
        first = next(iter(options), None)
        return ui.select(options, value=first, label=label).classes("wide").props(f"id=choose-{mark}")

    @staticmethod
    def _card(name: str, hint: str) -> ui.element:
        card = ui.element("div").classes("card")
        with card:
            ui.label(name).classes("card-title")
            ui.label(hint).classes("hint")
        return card

    def _button(self, text: str, mark: str, ask: Ask) -> None:
        async def clicked() -> None:
            try:
                asked = ask()
                question, act = asked if isinstance(asked, tuple) else await asked
            except MangroveError as error:
                ui.notify(error.message[:MAX_NOTE], type="negative", multi_line=True)
            else:
                await self._confirm(question, act)

        ui.button(text, on_click=clicked).props(f"no-caps flat id=act-{mark}").classes("action")

    async def _confirm(self, question: str, act: Act) -> None:
        with ui.dialog() as dialog, ui.card().classes("confirm"):
            ui.label(question).classes("question")
            with ui.element("div").classes("buttons"):
                ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps")
                ui.button("Yes", on_click=lambda: dialog.submit(True)).props("unelevated no-caps id=act-yes")
        confirmed = await dialog
        dialog.delete()
        runtime = self._renderer.snapshot.runtime
        if not confirmed:
            return
        if runtime is None:
            ui.notify("The federation has ended.", type="warning")
            return
        try:
            ui.notify(await act(runtime), type="positive")
        except MangroveError as error:
            ui.notify(error.message[:MAX_NOTE], type="negative", multi_line=True)
