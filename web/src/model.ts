// model.ts — which model answers and how it is: asked every few seconds, shown in the head of the page, explained in a
// window.
import { call, getJson, Problem } from "./api";
import { openDialog } from "./dialog";
import { byId, el, replace, say } from "./dom";
import { bytes, count } from "./format";
import { askKey } from "./keybox";
import { prefs } from "./prefs";
import { Signal } from "./signal";
import { SseParser } from "./sse";
import { toast } from "./toast";

export interface Card {
    id: string;
    max_model_len?: number;
    meta?: { n_ctx_train?: number; n_params?: number; size?: number; n_vocab?: number };
    parameters?: Record<string, unknown>;
}
interface Health {
    status: string;
    issues?: { description: string }[];
}
type State = "ready" | "loading" | "none" | "away" | "locked";

const READY_MS = 15000,
    UNREADY_MS = 1500;
const WORDS: Record<State, string> = {
    ready: "",
    loading: "Loading…",
    none: "No model",
    away: "No server",
    locked: "Key needed",
};

export class ModelWatch {
    readonly changed = new Signal<void>();
    card: Card | null = null;
    state: State = "away";
    words = "";
    private timer = 0;

    constructor() {
        byId("model").onclick = () => (this.state === "locked" ? void this.unlock() : void this.show());
        document.addEventListener("visibilitychange", () => document.hidden || void this.look());
    }

    async unlock(): Promise<void> {
        this.tell("locked", WORDS.locked);
        if (await askKey("api")) await this.look();
    }

    private tell(state: State, words: string): void {
        this.state = state;
        this.words = words;
        say(byId("model-name"), words);
        byId("model-dot").dataset.state = state;
        byId("model").title = state === "ready" ? "About the model " + words : words;
        this.changed.tell();
    }

    async look(): Promise<void> {
        clearTimeout(this.timer);
        try {
            this.card = await getJson<Card>("/v1/model");
            this.tell("ready", this.card.id);
        } catch (e) {
            this.card = null;
            await this.explain(e instanceof Problem ? e.fault.status : 0, e instanceof Problem ? e.fault.code : "");
        }
        const isOver = document.hidden || this.state === "locked"; // it will not change by itself
        if (!isOver)
            this.timer = window.setTimeout(() => void this.look(), this.state === "ready" ? READY_MS : UNREADY_MS);
    }

    private async explain(status: number, code: string): Promise<void> {
        const state = status === 0 ? "away" : status === 401 ? "locked" : code === "model_loading" ? "loading" : "none";
        this.tell(state, state === "loading" && this.state === state ? this.words : WORDS[state]);
        if (state !== "loading") return;
        const health = (await fetch("/health")
            .then(a => a.json())
            .catch(() => null)) as Health | null;
        const told = health?.issues?.[health.issues.length - 1]?.description;
        if (told) this.tell(state, told);
    }

    // ---- the window ----

    private async show(): Promise<void> {
        const body = el("div", { class: "stack" });
        openDialog("Model", "wide", body);
        await this.fill(body);
    }

    private async fill(body: HTMLElement): Promise<void> {
        const rows = this.card ? facts(this.card) : [["State", this.words]];
        const table = el(
            "dl",
            { class: "facts" },
            ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
        );
        const template = this.card?.parameters?.prompt_template_content;
        const source =
            typeof template === "string" && template
                ? el(
                      "details",
                      {},
                      el("summary", {}, "Chat template"),
                      el("pre", { class: "source", tabindex: "0" }, template),
                  )
                : null;
        replace(body, table, source, await this.others(body));
    }

    // The models of the server's folder, which the admin may load instead.
    private async others(body: HTMLElement): Promise<Node> {
        if (this.card && !prefs.admin) {
            const permission = await getJson<{ permission: string }>("/v1/auth/permission").catch(() => ({
                permission: "api",
            }));
            if (permission.permission !== "admin") return this.keyButton(body);
        }
        const list = await getJson<{ data: Card[] }>("/v1/model/list", "admin").catch(() => ({ data: [] }));
        const names = list.data.map(c => c.id).filter(id => id !== this.card?.id);
        if (!names.length)
            return el("p", { class: "quiet" }, "There are no other models: --model-dir names a folder of them.");
        const progress = el("p", { class: "quiet", role: "status" });
        const rows = names.map(name =>
            el(
                "li",
                {},
                el("span", { class: "grow" }, name),
                el(
                    "button",
                    { type: "button", class: "small", onclick: () => void this.load(name, progress, body) },
                    "Load",
                ),
            ),
        );
        return el("section", {}, el("h3", {}, "Other models"), el("ul", { class: "rows" }, ...rows), progress);
    }

    private keyButton(body: HTMLElement): Node {
        const enter = async (): Promise<void> => {
            if (await askKey("admin")) await this.fill(body);
        };
        return el(
            "p",
            { class: "quiet" },
            "Loading another model needs the admin key. ",
            el("button", { type: "button", class: "small", onclick: () => void enter() }, "Enter it"),
        );
    }

    private async load(name: string, progress: HTMLElement, body: HTMLElement): Promise<void> {
        say(progress, "Loading " + name + "…");
        try {
            await loadModel(name, part => say(progress, "Loading " + name + ", " + Math.round(100 * part) + " %"));
            toast(name + " is loaded.");
        } catch (e) {
            say(progress, e instanceof Error ? e.message : String(e));
            return;
        }
        await this.look();
        await this.fill(body);
    }
}

async function loadModel(name: string, told: (part: number) => void): Promise<void> {
    const answer = await call(
        "/v1/model/load",
        { method: "POST", body: JSON.stringify({ model_name: name }), headers: { "Content-Type": "application/json" } },
        "admin",
    );
    const reader = answer.body!.getReader(),
        decoder = new TextDecoder(),
        parser = new SseParser();
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        for (const event of parser.push(decoder.decode(value, { stream: true }))) {
            const step = JSON.parse(event.data) as { module?: number; modules?: number; error?: { message: string } };
            if (step.error) throw new Error(step.error.message);
            if (step.modules) told((step.module ?? 0) / step.modules);
        }
    }
}

function facts(card: Card): [string, string][] {
    const rows: [string, string][] = [["Name", card.id]],
        meta = card.meta ?? {};
    if (meta.n_params)
        rows.push([
            "Parameters",
            meta.n_params >= 1e9
                ? (meta.n_params / 1e9).toFixed(1) + " billion"
                : (meta.n_params / 1e6).toFixed(1) + " million",
        ]);
    if (meta.size) rows.push(["Size", bytes(meta.size)]);
    if (meta.n_vocab) rows.push(["Vocabulary", count(meta.n_vocab) + " tokens"]);
    if (card.max_model_len) rows.push(["Longest conversation", count(card.max_model_len) + " tokens"]);
    if (meta.n_ctx_train) rows.push(["Trained on", count(meta.n_ctx_train) + " tokens"]);
    const names: Record<string, string> = {
        cache_size: "Cache",
        cache_mode: "Cache format",
        max_batch_size: "Jobs at once",
        chunk_size: "Prompt tokens a step",
        prompt_template: "Template",
    };
    for (const [key, name] of Object.entries(names)) {
        const value = card.parameters?.[key];
        if (typeof value === "number") rows.push([name, count(value)]);
        else if (typeof value === "string" && value) rows.push([name, value]);
    }
    return rows;
}
