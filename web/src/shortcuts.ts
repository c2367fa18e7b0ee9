// shortcuts.ts — every key that does something, in one table: the help window lists it, the listener obeys it.
import { openDialog } from "./dialog";
import { byId, el } from "./dom";
import { prefs } from "./prefs";

export interface Shortcut {
    keys: string; // as shown: "n", "Ctrl+K", "Escape"
    about: string;
    run: () => void;
}

const isTyping = (e: KeyboardEvent): boolean =>
    e.target instanceof Element && e.target.closest("input, textarea, select, [contenteditable]") !== null;

function isPressed(keys: string, e: KeyboardEvent): boolean {
    const parts = keys.split("+"),
        key = parts[parts.length - 1]!;
    const wantsCtrl = parts.includes("Ctrl");
    if (wantsCtrl !== (e.ctrlKey || e.metaKey) || e.altKey) return false;
    return e.key.length === 1 ? e.key.toLowerCase() === key.toLowerCase() : e.key === key;
}

function applies(s: Shortcut, e: KeyboardEvent): boolean {
    if (!isPressed(s.keys, e)) return false;
    const isSingle = s.keys.length === 1;
    return !isSingle || (prefs.singleKeys && !isTyping(e));
}

export function listenForKeys(shortcuts: Shortcut[]): void {
    document.addEventListener("keydown", e => {
        if (e.defaultPrevented || document.querySelector("dialog[open]")) return;
        const found = shortcuts.find(s => applies(s, e));
        if (!found) return;
        e.preventDefault();
        found.run();
    });
}

const ALWAYS: [string, string][] = [
    ["Enter", "send (Shift+Enter: a new line)"],
    ["Up", "in the empty box: edit your last message"],
    ["Tab", "go through all that can be pressed"],
];

export function openHelp(shortcuts: Shortcut[]): void {
    const rows = [
        ...ALWAYS,
        ...shortcuts.map(s => [s.keys.length === 1 ? s.keys.toUpperCase() : s.keys, s.about]),
    ].flatMap(([keys, about]) => [
        el("dt", {}, ...keys!.split("+").map(k => el("kbd", {}, k.length === 1 ? k.toUpperCase() : k))),
        el("dd", {}, about!),
    ]);
    openDialog(
        "Keys and help",
        "wide",
        el(
            "div",
            { class: "stack" },
            el("dl", { class: "keys" }, ...rows),
            el(
                "p",
                { class: "quiet" },
                "Single letters work when no box has the focus; Escape leaves the message box. They can be switched off under " +
                    "Settings.",
            ),
            el(
                "p",
                { class: "quiet" },
                "The page is part of quipu and loads nothing from elsewhere. Conversations are kept in this browser.",
            ),
            el(
                "details",
                {},
                el("summary", {}, "Licences of what is built in"),
                el("pre", { class: "source", tabindex: "0" }, byId("licences").textContent ?? ""),
            ),
        ),
    );
}
