// thread.ts — the conversation as it is read: the shown path of its tree, kept in view while it grows unless the reader
// has scrolled away.
import { byId, el } from "./dom";
import { icon } from "./icons";
import { askKey } from "./keybox";
import type { Library } from "./library";
import { MessageView, type Act } from "./message";
import type { Talk } from "./talk";
import { announce, toast } from "./toast";
import { path, siblings } from "./tree";
import type { Conversation, Message } from "./types";

const NEAR = 60; // pixels from the end that count as being there

export class Thread {
    private views = new Map<string, MessageView>();
    private shown = "";
    private follows = true;
    private frame = 0;
    private readonly scroller = byId("scroll");
    private readonly list = byId("thread");
    private readonly toEnd = byId<HTMLButtonElement>("to-end");

    constructor(
        private readonly library: Library,
        private readonly talk: Talk,
        private readonly openSettings: () => void,
    ) {
        this.toEnd.append(icon("down"));
        this.toEnd.onclick = () => this.goToEnd();
        this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
        this.list.addEventListener("click", e => this.copyCode(e));
        new ResizeObserver(() => this.keepInView()).observe(this.scroller);
        library.opened.on(() => this.draw());
        library.touched.on(c => c === library.current && this.drawSoon());
        talk.began.on(run => {
            if (run.conversation === library.current) this.follows = true;
            this.draw();
        });
        talk.ended.on(run => {
            if (run.conversation !== library.current) return;
            this.draw();
            announce(run.message.ending === "failed" ? "The answer failed" : "The answer is complete");
        });
    }

    private noteScroll(): void {
        const { scrollHeight, scrollTop, clientHeight } = this.scroller;
        this.follows = scrollHeight - scrollTop - clientHeight < NEAR;
        this.toEnd.hidden = this.follows;
    }

    private keepInView(): void {
        if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
        else this.noteScroll();
    }

    goToEnd(): void {
        this.follows = true;
        this.keepInView();
    }

    // Events come faster than frames.
    private drawSoon(): void {
        this.frame ||= requestAnimationFrame(() => this.draw());
    }

    draw(): void {
        cancelAnimationFrame(this.frame);
        this.frame = 0;
        const c = this.library.current,
            run = this.library.run,
            line = path(c);
        if (this.shown !== c.id) {
            this.views = new Map();
            this.follows = true;
        }
        const isAnother = this.shown !== c.id;
        this.shown = c.id;
        const views = line.map(m => this.view(m));
        for (const view of views) {
            const all = siblings(c, view.message);
            view.update({
                run: run?.message === view.message ? run : undefined,
                isBusy: run !== undefined,
                place: all.indexOf(view.message),
                siblings: all.length,
            });
        }
        const wanted = views.map(v => v.element);
        if (
            isAnother ||
            wanted.length !== this.list.children.length ||
            wanted.some((e, i) => this.list.children[i] !== e)
        )
            this.list.replaceChildren(...wanted);
        byId("chat").classList.toggle("is-empty", !line.length);
        this.keepInView();
    }

    private view(m: Message): MessageView {
        const known = this.views.get(m.id);
        if (known && known.message === m) return known;
        const view = new MessageView(
            m,
            (act, v) => this.act(act, v),
            () => this.keepInView(),
        );
        this.views.set(m.id, view);
        return view;
    }

    // The same from a button and from a key.
    act(act: Act, view: MessageView): void {
        const c = this.library.current,
            m = view.message,
            isBusy = this.library.run !== undefined;
        const acts: Record<Act, () => void> = {
            copy: () => void copy(m.text),
            edit: () => isBusy || this.edit(c, view),
            retry: () => isBusy || this.talk.retry(c, m),
            goOn: () => isBusy || this.talk.goOn(c, m),
            erase: () => toast("Deleted, with all that followed.", { label: "Undo", run: this.talk.erase(c, m) }),
            previous: () => isBusy || this.step(c, m, -1),
            next: () => isBusy || this.step(c, m, 1),
            key: () =>
                void askKey(m.fault?.status === 403 ? "admin" : "api").then(good => good && this.talk.retry(c, m)),
            settings: () => this.openSettings(),
        };
        acts[act]();
    }

    private edit(c: Conversation, view: MessageView): void {
        view.edit(text => {
            const isNew = text !== null && (text !== view.message.text || view.message.role === "user");
            if (isNew) this.talk.edit(c, view.message, text);
            else view.element.focus();
        });
    }

    // Another version takes the place of this one, and of the focus.
    private step(c: Conversation, m: Message, by: number): void {
        const all = siblings(c, m),
            next = all[all.indexOf(m) + by];
        if (!next) return;
        this.follows = false;
        this.talk.step(c, m, by);
        this.draw();
        const element = this.views.get(next.id)?.element;
        const buttons = [...(element?.querySelectorAll<HTMLButtonElement>(".forks button") ?? [])].filter(
            b => !b.disabled,
        );
        (buttons[by > 0 ? buttons.length - 1 : 0] ?? element)?.focus();
        announce("Version " + (all.indexOf(next) + 1) + " of " + all.length);
    }

    last(role: Message["role"]): MessageView | undefined {
        const m = path(this.library.current)
            .reverse()
            .find(x => x.role === role);
        return m && this.views.get(m.id);
    }

    private copyCode(e: Event): void {
        const button = (e.target as Element).closest("[data-copy]");
        const code = button?.closest(".code")?.querySelector("code");
        if (code) void copy(code.textContent ?? "");
    }
}

async function copy(text: string): Promise<void> {
    try {
        await navigator.clipboard.writeText(text);
        toast("Copied.");
    } catch {
        copyByHand(text);
    }
}

// Browsers have no clipboard for pages that come over plain HTTP from another machine.
function copyByHand(text: string): void {
    const box = el("textarea", { class: "unseen" });
    box.value = text;
    const focused = document.activeElement;
    document.body.append(box);
    box.select();
    const isCopied = document.execCommand("copy");
    box.remove();
    if (focused instanceof HTMLElement) focused.focus();
    toast(isCopied ? "Copied." : "The browser does not let the page copy; select the text and copy it by hand.");
}
