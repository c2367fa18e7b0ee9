// dialog.ts — modal windows on the browser's own <dialog>: focus stays inside, Escape closes, focus goes back to where it
// was.
import { el, type Child } from "./dom";
import { icon } from "./icons";

export function openDialog(title: string, kind: string, ...children: Child[]): HTMLDialogElement {
    const close = (): void => dialog.close();
    const heading = el("h2", { tabindex: "-1", autofocus: true }, title); // it gets the focus, unless the caller moves it
    const dialog = el(
        "dialog",
        { class: "dialog " + kind, "aria-label": title },
        el(
            "header",
            {},
            heading,
            el("span", { class: "grow" }),
            el(
                "button",
                { type: "button", class: "plain close", "aria-label": "Close", onclick: close },
                icon("close"),
            ),
        ),
        el("div", { class: "dialog-body" }, ...children),
    );
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", e => e.target === dialog && close());
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}
