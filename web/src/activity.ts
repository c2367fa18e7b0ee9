// activity.ts — what the server does right now: its jobs, its cache, its speed over the last two minutes. Asks /v1/jobs
// and /metrics once a second, only while it is looked at.
import { call, getJson, Problem } from "./api";
import { byId, el, replace, say } from "./dom";
import { count, rate, seconds } from "./format";
import { drawing, icon, line } from "./icons";
import { askKey } from "./keybox";
import { readMetrics } from "./metrics";
import { prefs } from "./prefs";
import { explain } from "./problems";
import { toast } from "./toast";

interface Job {
    id: string;
    state: string;
    queue_place: number;
    prompt_tokens: number;
    prompt_done: number;
    generated: number;
    pages: number;
    tokens_per_sec: number | null;
    age_s: number;
}
interface Sample {
    at: number;
    written: number;
    read: number;
}

const EVERY_MS = 1000,
    KEPT = 120,
    WIDE = 240,
    HIGH = 48;
const STATES: Record<string, string> = { queued: "Waiting", prefill: "Reading", decode: "Writing", finished: "Ending" };

class Tile {
    readonly element: HTMLElement;
    private readonly figure = el("strong");
    private readonly about = el("span", { class: "quiet" });

    constructor(
        title: string,
        private readonly below: Element | null = null,
    ) {
        this.element = el("section", { class: "tile" }, el("h3", {}, title), this.figure, this.about, below);
    }

    show(figure: string, about: string): void {
        say(this.figure, figure);
        say(this.about, about);
    }

    get inside(): Element {
        return this.below!;
    }
}

function graph(): SVGSVGElement {
    const svg = drawing(WIDE, HIGH);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "graph");
    return svg;
}

function plot(svg: Element, values: number[]): void {
    const most = Math.max(1, ...values),
        step = WIDE / (KEPT - 1),
        first = WIDE - (values.length - 1) * step;
    const points = values.map(
        (v, i) => (first + i * step).toFixed(1) + " " + (HIGH - 2 - (v / most) * (HIGH - 6)).toFixed(1),
    );
    if (points.length < 2) return svg.replaceChildren();
    const top = "M" + points.join("L");
    svg.replaceChildren(line(top + "V" + HIGH + "H" + first.toFixed(1) + "Z", "area"), line(top, "curve"));
}

export class Activity {
    private readonly place = byId("activity");
    private readonly jobs = new Tile("Jobs");
    private readonly written = new Tile("Writing", graph());
    private readonly read = new Tile("Reading", graph());
    private readonly cache = new Tile(
        "Cache",
        el("div", { class: "bar" }, el("span", { class: "used" }), el("span", { class: "kept" })),
    );
    private readonly rows = el("tbody");
    private readonly none = el("p", { class: "quiet none" }, "No jobs now. Ask something, and it appears here.");
    private readonly table = el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Jobs" });
    private readonly notice = el("div", { class: "notice" });
    private samples: Sample[] = [];
    private timer = 0;

    constructor(back: () => void) {
        const heads = ["Job", "State", "Prompt", "Written", "Pages", "Speed", "Age", ""];
        this.table.append(
            el(
                "table",
                {},
                el(
                    "thead",
                    {},
                    el(
                        "tr",
                        {},
                        ...heads.map(h => el("th", { scope: "col" }, h || el("span", { class: "unseen" }, "Cancel"))),
                    ),
                ),
                this.rows,
            ),
        );
        const again = (): void => (this.place.hidden || document.hidden ? clearTimeout(this.timer) : void this.look());
        document.addEventListener("visibilitychange", again);
        replace(
            this.place,
            el(
                "div",
                { class: "activity-in" },
                el(
                    "header",
                    { class: "row" },
                    el("h2", {}, "Activity"),
                    el("span", { class: "grow" }),
                    el("button", { type: "button", class: "small", onclick: back }, "Back to the conversation"),
                ),
                this.notice,
                el(
                    "div",
                    { class: "tiles" },
                    this.jobs.element,
                    this.written.element,
                    this.read.element,
                    this.cache.element,
                ),
                el("h3", {}, "Jobs"),
                this.table,
                this.none,
            ),
        );
    }

    show(isShown: boolean): void {
        this.place.hidden = !isShown;
        clearTimeout(this.timer);
        if (isShown) void this.look();
    }

    private async look(): Promise<void> {
        clearTimeout(this.timer);
        try {
            const [list, page] = await Promise.all([
                getJson<{ data: Job[] }>("/v1/jobs", "admin"),
                call("/metrics", {}, "admin").then(a => a.text()),
            ]);
            await this.drawNotice(null);
            this.drawTiles(readMetrics(page));
            this.drawJobs(list.data);
        } catch (e) {
            await this.drawNotice(e);
        }
        if (!this.place.hidden && !document.hidden) this.timer = window.setTimeout(() => void this.look(), EVERY_MS);
    }

    // An api key sees its own jobs; the admin key all.
    private async drawNotice(e: unknown): Promise<void> {
        const state = e ? String(e) : prefs.key && !prefs.admin ? "own" : "";
        if (this.notice.dataset.state === state) return;
        this.notice.dataset.state = state;
        if (!state) return this.notice.replaceChildren();
        const enter = (kind: "api" | "admin"): HTMLElement =>
            el(
                "button",
                { type: "button", class: "small", onclick: () => void askKey(kind).then(() => this.look()) },
                "Enter the key",
            );
        if (!e)
            return replace(
                this.notice,
                el("span", {}, "You see the jobs of your own key. The admin key shows all. "),
                enter("admin"),
            );
        const fault = e instanceof Problem ? e.fault : { status: 0, code: "", message: String(e), retryAfter: null };
        const { title, advice, action } = explain(fault);
        replace(
            this.notice,
            el("strong", {}, title + ". "),
            el("span", {}, advice + " "),
            action === "key" ? enter("api") : null,
        );
    }

    private drawTiles(m: Map<string, number>): void {
        const value = (name: string): number => m.get("quipu_" + name) ?? 0;
        this.samples.push({
            at: performance.now() / 1000,
            written: value("generation_tokens_total"),
            read: value("prompt_tokens_total"),
        });
        this.samples = this.samples.slice(-KEPT - 1);
        const written = this.rates("written"),
            read = this.rates("read");
        this.jobs.show(count(value("requests_running")), count(value("requests_waiting")) + " waiting");
        this.written.show(
            rate(written[written.length - 1] ?? 0) + " tok/s",
            count(value("generation_tokens_total")) + " since the start",
        );
        this.read.show(
            rate(read[read.length - 1] ?? 0) + " tok/s",
            count(value("prompt_tokens_total")) +
                " read, " +
                count(value("prompt_tokens_cached_total")) +
                " found in the cache",
        );
        plot(this.written.inside, written);
        plot(this.read.inside, read);
        this.drawCache(value("kv_pages_total"), value("kv_pages_free"), value("kv_pages_cached"));
    }

    private rates(what: "written" | "read"): number[] {
        return this.samples.slice(1).map((s, i) => {
            const before = this.samples[i]!;
            return Math.max(0, (s[what] - before[what]) / Math.max(0.001, s.at - before.at));
        });
    }

    // Pages in use, and pages that keep what was read for the next time; these count as free, for they give way.
    private drawCache(total: number, free: number, cached: number): void {
        const used = Math.max(0, total - free),
            [a, b] = [...this.cache.inside.children] as HTMLElement[];
        this.cache.show(
            count(used) + " of " + count(total),
            "pages; " + count(cached) + " kept for reuse, " + count(Math.max(0, free - cached)) + " empty",
        );
        a!.style.width = (total ? (100 * used) / total : 0) + "%";
        b!.style.width = (total ? (100 * cached) / total : 0) + "%";
    }

    // Rows stay where they are while their figures change, so that a button is still there when it is pressed.
    private drawJobs(jobs: Job[]): void {
        const known = new Map([...this.rows.children].map(r => [(r as HTMLElement).dataset.id, r as HTMLElement]));
        const rows = jobs.map(job => {
            const row = known.get(job.id) ?? this.newRow(job);
            jobTexts(job).forEach((words, i) => say(row.children[i]!, words));
            return row;
        });
        if (rows.length !== this.rows.children.length || rows.some((r, i) => this.rows.children[i] !== r))
            this.rows.replaceChildren(...rows);
        this.table.hidden = !jobs.length;
        this.none.hidden = jobs.length > 0;
    }

    private newRow(job: Job): HTMLElement {
        const cancel = el(
            "button",
            {
                type: "button",
                class: "small",
                "aria-label": "Cancel job " + job.id.slice(0, 8),
                onclick: () => void this.cancel(job.id),
            },
            icon("close"),
            "Cancel",
        );
        return el("tr", { "data-id": job.id }, ...jobTexts(job).map(() => el("td")), el("td", {}, cancel));
    }

    private async cancel(id: string): Promise<void> {
        try {
            await call("/v1/jobs/" + encodeURIComponent(id), { method: "DELETE" }, "admin");
        } catch (e) {
            toast(
                e instanceof Problem && e.fault.status === 404
                    ? "The job had already ended."
                    : "The job could not be cancelled: " + String(e),
            );
        }
        void this.look();
    }
}

function jobTexts(j: Job): string[] {
    const prompt =
        j.state === "prefill" ? count(j.prompt_done) + " of " + count(j.prompt_tokens) : count(j.prompt_tokens);
    const state =
        (STATES[j.state] ?? j.state) + (j.state === "queued" && j.queue_place ? ", number " + j.queue_place : "");
    return [
        j.id.slice(0, 8),
        state,
        prompt,
        count(j.generated),
        count(j.pages),
        j.tokens_per_sec ? rate(j.tokens_per_sec) + "/s" : "–",
        seconds(j.age_s),
    ];
}
