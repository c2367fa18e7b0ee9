// sidebar.ts — the list of conversations: open, rename, export, delete, find; and the doors to the other views.
import { byId, el, replace } from "./dom";
import { dayOf } from "./format";
import { icon, type IconName } from "./icons";
import type { Library } from "./library";
import { prefs } from "./prefs";
import { readFile, writeFile, FileFault, MOST_BYTES } from "./transfer";
import { toast } from "./toast";
import { plural } from "./format";
import { titleOf } from "./tree";
import type { Conversation, Heading } from "./types";

export interface Doors {
    activity: () => void;
    settings: () => void;
    help: () => void;
    theme: (button: HTMLButtonElement) => void;
    conversation: (id: string) => void;
    fresh: () => void;
}

const isNarrow = (): boolean => matchMedia("(max-width: 50rem)").matches;

export class Sidebar {
    private readonly list = byId("list");
    private readonly search = byId<HTMLInputElement>("search");
    private renaming = "";

    constructor(
        private readonly library: Library,
        private readonly doors: Doors,
    ) {
        byId("hide-sidebar").append(icon("left"));
        byId("show-sidebar").append(icon("menu"));
        replace(byId("new"), icon("plus"), "New conversation");
        byId("new").onclick = () => this.leave(() => doors.fresh());
        byId("hide-sidebar").onclick = () => this.show(false);
        byId("show-sidebar").onclick = () => this.show(true);
        byId("shade").onclick = () => this.show(false);
        byId("sidebar").addEventListener("keydown", e => e.key === "Escape" && isNarrow() && this.show(false));
        this.search.oninput = () => this.draw();
        matchMedia("(max-width: 50rem)").addEventListener("change", () => this.lay(!isNarrow() && prefs.sidebar));
        this.foot();
        this.lay(!isNarrow() && prefs.sidebar);
        library.listed.on(() => this.draw());
        library.opened.on(() => this.draw());
        this.draw();
    }

    private foot(): void {
        const door = (picture: IconName, label: string, run: (b: HTMLButtonElement) => void): HTMLButtonElement => {
            const button = el(
                "button",
                { type: "button", class: "plain", title: label, "aria-label": label },
                icon(picture),
            );
            button.onclick = () => run(button);
            return button;
        };
        const theme = door("system", "Theme", b => this.doors.theme(b));
        theme.id = "theme";
        replace(
            byId("sidebar-foot"),
            door("pulse", "Activity of the server", () => this.leave(this.doors.activity)),
            door("open", "Import conversations", () => this.pickFile()),
            door("save", "Export all conversations", () => void this.exportAll()),
            theme,
            door("help", "Keys and help", () => this.doors.help()),
        );
    }

    // On a phone the list lies over the page and goes away when something was picked.
    private leave(run: () => void): void {
        if (isNarrow()) this.show(false);
        run();
    }

    toggle(): void {
        this.show(byId("frame").classList.contains("no-sidebar"));
    }

    show(isShown: boolean): void {
        if (!isNarrow()) prefs.sidebar = isShown;
        this.lay(isShown);
        (isShown ? byId("hide-sidebar") : byId("show-sidebar")).focus();
    }

    private lay(isShown: boolean): void {
        const covers = isShown && isNarrow();
        byId("frame").classList.toggle("no-sidebar", !isShown);
        byId("sidebar").inert = !isShown;
        document.querySelector<HTMLElement>(".stage")!.inert = covers;
        byId("shade").hidden = !covers;
    }

    focusSearch(): void {
        this.show(true);
        this.search.focus();
        this.search.select();
    }

    private draw(): void {
        if (this.renaming) return;
        const wanted = this.search.value.trim().toLowerCase(),
            now = Date.now();
        const shown = this.library.headings.filter(h => h.title.toLowerCase().includes(wanted));
        const focused = document.activeElement?.closest("[data-id]")?.getAttribute("data-id");
        const parts: Node[] = [];
        let day = "",
            rows = el("ul");
        for (const h of shown) {
            if (dayOf(h.updated, now) !== day) {
                day = dayOf(h.updated, now);
                rows = el("ul", { "aria-label": day });
                parts.push(el("h2", { class: "day" }, day), rows);
            }
            rows.append(this.row(h));
        }
        if (!shown.length)
            parts.push(
                el("p", { class: "quiet none" }, wanted ? "None has these words in its title." : "Nothing said yet."),
            );
        this.list.replaceChildren(...parts);
        if (focused) this.list.querySelector<HTMLElement>('[data-id="' + focused + '"] .open')?.focus();
    }

    private row(h: Heading): HTMLElement {
        const isCurrent = h.id === this.library.current.id;
        const tool = (picture: IconName, label: string, run: () => void): HTMLElement =>
            el(
                "button",
                {
                    type: "button",
                    class: "plain tool",
                    title: label,
                    "aria-label": label + ": " + h.title,
                    onclick: run,
                },
                icon(picture),
            );
        const open = el(
            "button",
            {
                type: "button",
                class: "open",
                "aria-current": isCurrent ? "page" : null,
                onclick: () => this.leave(() => this.doors.conversation(h.id)),
            },
            this.library.runs.has(h.id) ? el("span", { class: "dot", "data-state": "busy" }) : null,
            el("span", { class: "open-title" }, h.title),
        );
        return el(
            "li",
            { class: isCurrent ? "row current" : "row", "data-id": h.id },
            open,
            el(
                "span",
                { class: "row-tools" },
                tool("pencil", "Rename", () => void this.rename(h)),
                tool("save", "Export", () => void this.exportOne(h.id)),
                tool("trash", "Delete", () => void this.erase(h)),
            ),
        );
    }

    private async rename(h: Heading): Promise<void> {
        const c = await this.library.get(h.id),
            row = this.list.querySelector('[data-id="' + h.id + '"]');
        if (!c || !row) return;
        const input = el("input", { class: "rename", "aria-label": "Title", maxlength: "200" });
        input.value = titleOf(c);
        this.renaming = h.id;
        const end = async (keep: boolean): Promise<void> => {
            if (this.renaming !== h.id) return;
            this.renaming = "";
            if (keep) await this.retitle(c, input.value);
            this.draw();
            this.list.querySelector<HTMLElement>('[data-id="' + h.id + '"] .open')?.focus();
        };
        input.onkeydown = e => {
            if (e.key === "Enter") void end(true);
            else if (e.key === "Escape") void end(false);
            e.stopPropagation();
        };
        input.onblur = () => void end(true);
        row.replaceChildren(input);
        input.select();
    }

    private async retitle(c: Conversation, title: string): Promise<void> {
        const mine = c.id === this.library.current.id ? this.library.current : c;
        mine.title = title.trim();
        await this.library.keep(mine);
        if (mine === this.library.current) this.library.opened.tell(mine);
    }

    private async erase(h: Heading): Promise<void> {
        const c = await this.library.erase(h.id);
        if (!c) return;
        toast("“" + h.title + "” is deleted.", { label: "Undo", run: () => void this.library.keep(c) });
        this.search.focus();
    }

    // ---- files ----

    private async exportOne(id: string): Promise<void> {
        const c = await this.library.get(id);
        if (c) save([c], titleOf(c));
    }

    private async exportAll(): Promise<void> {
        const all = await this.library.all();
        if (all.length) save(all, "conversations");
        else toast("There is nothing to export yet.");
    }

    private pickFile(): void {
        const input = el("input", { type: "file", accept: ".json,application/json" });
        input.onchange = () => input.files?.[0] && void this.importFile(input.files[0]);
        input.click();
    }

    async importFile(file: File): Promise<void> {
        try {
            if (file.size > MOST_BYTES) throw new FileFault("it is larger than " + MOST_BYTES / (1 << 20) + " MiB");
            const all = readFile(await file.text());
            for (const c of all) await this.library.keep(c);
            toast(plural(all.length, "conversation") + " imported.");
        } catch (e) {
            toast(
                "“" +
                    file.name.slice(0, 60) +
                    "” was not imported: " +
                    (e instanceof Error ? e.message : String(e)) +
                    ".",
            );
        }
    }
}

function save(conversations: Conversation[], title: string): void {
    const url = URL.createObjectURL(new Blob([writeFile(conversations)], { type: "application/json" }));
    const name =
        title
            .replace(/[^\p{L}\p{N}]+/gu, "-")
            .replace(/^-+|-+$/g, "")
            .slice(0, 60) || "conversation";
    el("a", { href: url, download: "quipu-" + name.toLowerCase() + ".json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
