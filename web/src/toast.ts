// toast.ts — short words at the edge of the page, read out by screen readers; at most one with something to do.
import { byId, el } from "./dom";

const STAY_MS = 8000;

export function toast(words: string, action?: { label: string; run: () => void }): void {
    const note = el("div", { class: "toast" }, el("span", {}, words));
    const close = (): void => note.remove();
    if (action) {
        const act = (): void => {
            close();
            action.run();
        };
        note.append(el("button", { type: "button", class: "small", onclick: act }, action.label));
    }
    byId("toasts").replaceChildren(note);
    setTimeout(close, STAY_MS);
}

// For screen readers alone.
export function announce(words: string): void {
    byId("announce").textContent = words;
}
