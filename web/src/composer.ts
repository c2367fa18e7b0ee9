// composer.ts — the box at the bottom: writing, sending, stopping, and how full the context is.
import { byId, replace, say } from "./dom";
import { count } from "./format";
import { icon } from "./icons";
import type { Library } from "./library";
import type { ModelWatch } from "./model";
import type { Talk } from "./talk";
import { path } from "./tree";

export class Composer {
    readonly box = byId<HTMLTextAreaElement>("prompt");
    private readonly button = byId<HTMLButtonElement>("send");
    private readonly drafts = new Map<string, string>(); // by conversation, until the page is left
    private owner: string;
    private isStop: boolean | null = null;

    constructor(
        private readonly library: Library,
        private readonly talk: Talk,
        private readonly model: ModelWatch,
    ) {
        this.owner = library.current.id;
        byId("composer").addEventListener("submit", e => {
            e.preventDefault();
            this.submit();
        });
        this.box.addEventListener("input", () => this.fit());
        this.box.addEventListener("keydown", e => this.key(e));
        library.opened.on(() => this.swap());
        for (const signal of [talk.began, talk.ended, talk.progressed]) signal.on(() => this.update());
        library.touched.on(() => this.update());
        model.changed.on(() => this.update());
        this.update();
    }

    // On a touch screen the key of the keyboard makes lines; there is a button for sending.
    private key(e: KeyboardEvent): void {
        const isTouch = matchMedia("(pointer: coarse)").matches;
        if (e.key !== "Enter" || e.shiftKey || e.isComposing || (isTouch && !e.ctrlKey && !e.metaKey)) return;
        e.preventDefault();
        if (!this.library.run) this.submit();
    }

    private submit(): void {
        const c = this.library.current;
        if (this.library.run) return this.talk.stop(c);
        const text = this.box.value.trim();
        if (!text) return this.box.focus();
        this.box.value = "";
        this.fit();
        const line = path(c);
        this.talk.say(c, text, line.length ? line[line.length - 1]!.id : null);
    }

    fill(text: string): void {
        this.box.value = text;
        this.fit();
        this.box.focus();
    }

    // Browsers without field-sizing get the height by hand.
    private fit(): void {
        if (!CSS.supports("field-sizing", "content")) {
            this.box.style.height = "auto";
            this.box.style.height = Math.min(this.box.scrollHeight, innerHeight * 0.4) + "px";
        }
        this.update();
    }

    // Another conversation has another draft.
    private swap(): void {
        this.drafts.set(this.owner, this.box.value);
        this.owner = this.library.current.id;
        this.box.value = this.drafts.get(this.owner) ?? "";
        this.fit();
    }

    update(): void {
        const isStop = this.library.run !== undefined;
        if (isStop !== this.isStop) {
            this.isStop = isStop;
            replace(this.button, icon(isStop ? "stop" : "send"));
            this.button.setAttribute("aria-label", isStop ? "Stop" : "Send");
            this.button.title = isStop ? "Stop (Escape)" : "Send (Enter)";
            this.button.classList.toggle("is-stop", isStop);
        }
        this.button.disabled = !isStop && !this.box.value.trim();
        say(
            byId("hint"),
            isStop
                ? "Escape stops the answer"
                : "Enter sends, Shift+Enter makes a line, ? outside the box lists the keys",
        );
        this.showContext();
    }

    private showContext(): void {
        const most = this.model.card?.max_model_len ?? 0;
        const figures = path(this.library.current)
            .reverse()
            .find(m => m.figures)?.figures;
        const used = figures ? figures.promptTokens + figures.tokens : 0;
        const place = byId("context");
        say(place, used && most ? count(used) + " of " + count(most) + " tokens" : "");
        place.title = "How much of the model's context this conversation fills";
        place.classList.toggle("nearly-full", most > 0 && used > 0.9 * most);
    }
}
