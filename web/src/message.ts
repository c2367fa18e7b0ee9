// message.ts — one message on the page: its text, the thoughts before it, what went wrong, and what can be done with it.
// The element stays as long as the message is shown; `update` brings it up to date and leaves alone what has not changed.
import type { Run } from "./answer";
import { el, replace, say } from "./dom";
import { count, plural, rate, seconds } from "./format";
import { icon, type IconName } from "./icons";
import { LiveText } from "./live";
import { explain } from "./problems";
import type { Ending, Fault, Figures, Message } from "./types";

export type Act = "copy" | "edit" | "retry" | "goOn" | "erase" | "previous" | "next" | "key" | "settings";

export interface Surroundings {
    run: Run | undefined; // of this very message
    isBusy: boolean; // the conversation is being answered
    place: number; // among its siblings, from 0
    siblings: number;
}

const TOOLS: [Act, IconName, string][] = [
    ["copy", "copy", "Copy"],
    ["edit", "pencil", "Edit"],
    ["retry", "retry", "Ask again"],
    ["goOn", "forward", "Go on"],
    ["erase", "trash", "Delete"],
];

function figureTexts(f: Figures): [string, string][] {
    const all: [string, string][] = [
        [
            plural(f.tokens, "token"),
            f.reasoningTokens ? count(f.reasoningTokens) + " of them thoughts" : "length of the answer",
        ],
    ];
    if (f.perSecond)
        all.push([rate(f.perSecond) + " per second", "speed of writing, from the first token to the last"]);
    if (f.firstSeconds !== null)
        all.push([seconds(f.firstSeconds) + " to the first", "from sending to the first text, as seen here"]);
    if (f.promptTokens)
        all.push([
            count(f.promptTokens) + " read" + (f.cachedTokens ? ", " + count(f.cachedTokens) + " cached" : ""),
            "tokens of the prompt, and how many of them the server had in its cache",
        ]);
    return all;
}

function phaseWords(run: Run): string {
    if (run.phase === "waiting") return "Waiting for the model…";
    if (run.phase === "reading" && run.read && run.read.total > 0)
        return "Reading the conversation, " + Math.round((100 * run.read.done) / run.read.total) + " %";
    return "";
}

// One that never got an end was cut off: its page was closed.
function endingOf(m: Message, isRunning: boolean): Ending {
    return isRunning ? "" : m.ending || "cut";
}

export class MessageView {
    readonly element: HTMLElement;
    private readonly prose: LiveText | null = null;
    private readonly thought: LiveText | null = null;
    private readonly plain: HTMLElement | null = null;
    private readonly fold = el("details", { class: "thought" });
    private readonly foldTitle = el("summary");
    private readonly phase = el("div", { class: "phase" });
    private readonly fault = el("div", { class: "fault", role: "alert", hidden: true });
    private readonly forks = el("div", { class: "forks" });
    private readonly tools = el("div", { class: "tools" });
    private readonly figures = el("div", { class: "figures" });
    private readonly place = el("span", { class: "place" });
    private readonly buttons = new Map<Act, HTMLButtonElement>();
    private drawnText: string | null = null;
    private drawnThought: string | null = null;
    private wasRunning = false;
    private shownFault: Fault | null = null;

    constructor(
        readonly message: Message,
        private readonly act: (act: Act, view: MessageView) => void,
        drawn: () => void,
    ) {
        const isUser = message.role === "user";
        this.element = el("article", {
            class: "message " + message.role,
            "data-id": message.id,
            tabindex: "-1",
            "aria-label": isUser ? "Your message" : "Answer",
        });
        this.makeForks();
        for (const [name, picture, label] of TOOLS) this.tools.append(this.button(name, picture, label));
        if (isUser) {
            this.plain = el("div", { class: "bubble" });
            this.element.append(this.plain);
        } else {
            this.prose = new LiveText(el("div", { class: "prose" }), drawn);
            this.thought = new LiveText(el("div", { class: "prose small-prose" }), drawn);
            this.fold.append(this.foldTitle, this.thought.element);
            this.fold.addEventListener("toggle", () => this.drawThought(this.wasRunning));
            this.element.append(this.fold, this.prose.element, this.phase, this.fault);
        }
        this.element.append(el("footer", { class: "under" }, this.forks, this.tools, this.figures));
    }

    private button(name: Act, picture: IconName, label: string): HTMLButtonElement {
        const button = el(
            "button",
            {
                type: "button",
                class: "plain tool",
                title: label,
                "aria-label": label,
                "data-act": name,
                onclick: () => this.act(name, this),
            },
            icon(picture),
        );
        this.buttons.set(name, button);
        return button;
    }

    private makeForks(): void {
        this.forks.append(
            this.button("previous", "left", "Previous version"),
            this.place,
            this.button("next", "right", "Next version"),
        );
    }

    update(s: Surroundings): void {
        const isRunning = s.run !== undefined;
        if (this.plain) say(this.plain, this.message.text);
        else this.drawAnswer(isRunning);
        this.element.classList.toggle("running", isRunning);
        this.element.setAttribute("aria-busy", String(isRunning));
        say(this.phase, s.run ? phaseWords(s.run) : "");
        this.drawFault();
        this.drawUnder(s, isRunning);
        this.wasRunning = isRunning;
    }

    private drawAnswer(isRunning: boolean): void {
        const { text, reasoning } = this.message;
        if (isRunning) this.prose!.grow(text);
        else if (text !== this.drawnText || this.wasRunning) this.prose!.finish(text);
        this.drawnText = text;
        this.fold.hidden = !reasoning;
        if (reasoning) this.drawThought(isRunning);
        const spent = this.message.thoughtSeconds;
        say(this.foldTitle, isRunning && !text ? "Thinking…" : spent ? "Thought for " + seconds(spent) : "Thoughts");
    }

    // Thoughts are drawn only where they are looked at.
    private drawThought(isRunning: boolean): void {
        if (!this.fold.open) return;
        const text = this.message.reasoning;
        if (isRunning) this.thought!.grow(text);
        else if (text !== this.drawnThought || this.wasRunning) this.thought!.finish(text);
        this.drawnThought = isRunning ? null : text;
    }

    private drawFault(): void {
        const fault = this.message.fault;
        if (fault === this.shownFault) return;
        this.shownFault = fault;
        this.fault.hidden = !fault;
        if (!fault) return;
        const { title, advice, action } = explain(fault);
        const labels = { retry: "Try again", key: "Enter the key", settings: "Open the settings", none: "" };
        const button =
            action === "none"
                ? null
                : el(
                      "button",
                      { type: "button", class: "small", onclick: () => this.act(action, this) },
                      labels[action],
                  );
        replace(
            this.fault,
            el("strong", {}, title),
            el("p", { class: "said" }, fault.message),
            el("p", {}, advice),
            button,
        );
    }

    private drawUnder(s: Surroundings, isRunning: boolean): void {
        const m = this.message,
            isAnswer = m.role === "assistant";
        this.forks.hidden = s.siblings < 2;
        say(this.place, s.place + 1 + " / " + s.siblings);
        this.place.setAttribute("aria-label", "Version " + (s.place + 1) + " of " + s.siblings);
        const isOff: Partial<Record<Act, boolean>> = {
            previous: s.isBusy || s.place === 0,
            next: s.isBusy || s.place === s.siblings - 1,
            edit: s.isBusy,
            retry: s.isBusy,
            goOn: s.isBusy,
        };
        for (const [name, button] of this.buttons) button.disabled = isOff[name] ?? false;
        this.buttons.get("retry")!.hidden = !isAnswer;
        this.buttons.get("goOn")!.hidden = !isAnswer || !m.text || ["", "stop"].includes(endingOf(m, isRunning));
        this.tools.hidden = isRunning;
        if (isAnswer) this.drawFigures(isRunning);
    }

    private drawFigures(isRunning: boolean): void {
        const m = this.message,
            parts = m.figures ? figureTexts(m.figures) : [];
        const why = {
            length: "cut off by the limit of length",
            stopped: "stopped by you",
            cut: "left unfinished",
            failed: "",
            stop: "",
            "": "",
        }[endingOf(m, isRunning)];
        const shown = isRunning ? parts.slice(0, 2) : parts;
        if (why) shown.unshift([why, "why the answer ends here"]);
        const spans = shown.map(([words, about]) => el("span", { title: about }, words));
        if (spans.map(x => x.textContent).join() !== [...this.figures.children].map(x => x.textContent).join())
            replace(this.figures, ...spans);
    }

    // Puts a box with the text in the place of the message; `done` gets the new text, or null.
    edit(done: (text: string | null) => void): void {
        const body = this.plain ?? this.prose!.element;
        const box = el("textarea", { class: "edit-box", "aria-label": "Edit the message" });
        box.value = this.message.text;
        const end = (text: string | null): void => {
            form.replaceWith(body);
            this.element.classList.remove("editing");
            done(text);
        };
        const submit = (e: Event): void => {
            e.preventDefault();
            end(box.value.trim() ? box.value : null);
        };
        const keys = (e: KeyboardEvent): void => {
            if (e.key === "Escape") end(null);
            else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) submit(e);
            else return;
            e.stopPropagation();
        };
        const form = el(
            "form",
            { class: "edit", onsubmit: submit },
            box,
            el(
                "div",
                { class: "row end" },
                el("span", { class: "hint grow" }, "Ctrl+Enter saves, Escape leaves it as it was"),
                el("button", { type: "button", class: "small", onclick: () => end(null) }, "Cancel"),
                el("button", { type: "submit", class: "small main" }, this.plain ? "Ask" : "Save"),
            ),
        );
        box.addEventListener("keydown", keys);
        this.element.classList.add("editing");
        body.replaceWith(form);
        box.focus();
        box.setSelectionRange(box.value.length, box.value.length);
    }
}
