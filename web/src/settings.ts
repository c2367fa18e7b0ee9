// settings.ts — the window with the system prompt, every sampler with its explanation, and what the page itself does.
import { openDialog } from "./dialog";
import { add, el, say, type Child } from "./dom";
import { loadFields, type Field } from "./fields";
import { icon } from "./icons";
import type { Library } from "./library";
import { changeSetting, prefs, readSettings, replaceSettings, type Settings, type Value } from "./prefs";
import { GROUPS, type Group, type Sampler } from "./samplers";
import { toast } from "./toast";

const WAYS: [string, string, Settings][] = [
    ["Precise", "for facts and code", { temperature: 0.2, top_p: 0.9 }],
    ["Balanced", "for conversations", { temperature: 0.7, min_p: 0.05 }],
    ["Inventive", "for stories and ideas", { temperature: 1.1, min_p: 0.08 }],
    ["Server's own", "nothing is sent", {}],
];

export async function openSettings(library: Library): Promise<void> {
    let fields = new Map<string, Field>();
    try {
        fields = await loadFields();
    } catch {
        toast("The server does not tell which settings it has; only the page's own are shown.");
    }
    const body = el("div", { class: "stack" });
    const dialog = openDialog("Settings", "side", body);
    const draw = (): void =>
        body.replaceChildren(
            systemPart(library),
            ...(fields.size ? [waysPart(draw), ...groups(fields)] : []),
            pagePart(library, () => dialog.close()),
        );
    draw();
}

// ---- the system prompt ----

function systemPart(library: Library): Node {
    const c = library.current;
    const box = el("textarea", {
        id: "system",
        rows: "3",
        "aria-describedby": "system-about",
        placeholder: "You are a helpful assistant who answers briefly.",
    });
    box.value = c.system;
    box.oninput = () => {
        c.system = box.value;
        library.touch(c);
    };
    const forAll = (): void => {
        prefs.system = box.value;
        toast(
            box.value.trim()
                ? "New conversations begin with this system prompt."
                : "New conversations begin without a system prompt.",
        );
    };
    return el(
        "section",
        { class: "setting" },
        el("label", { for: "system" }, "System prompt"),
        box,
        el(
            "p",
            { class: "quiet", id: "system-about" },
            "Told to the model before all else, in this conversation: who it is, how it " + "should answer.",
        ),
        el(
            "div",
            { class: "row end" },
            el("button", { type: "button", class: "small", onclick: forAll }, "Use for new ones too"),
        ),
    );
}

// ---- samplers ----

function waysPart(redraw: () => void): Node {
    const take = (settings: Settings): void => {
        const kept = readSettings();
        for (const name of ["temperature", "top_p", "min_p", "top_k"]) delete kept[name];
        replaceSettings({ ...(Object.keys(settings).length ? kept : {}), ...settings });
        redraw();
    };
    const buttons = WAYS.map(([name, about, settings]) =>
        el(
            "button",
            { type: "button", class: "way", onclick: () => take(settings) },
            el("strong", {}, name),
            el("span", {}, about),
        ),
    );
    return el("section", { class: "ways", "aria-label": "Ways of answering" }, ...buttons);
}

function groups(fields: Map<string, Field>): Node[] {
    return GROUPS.map(group => {
        const shown = group.samplers.filter(s => fields.get(s.name)?.isBuilt);
        return shown.length ? groupPart(group, shown, fields) : null;
    }).filter((part): part is HTMLDetailsElement => part !== null);
}

function groupPart(group: Group, samplers: Sampler[], fields: Map<string, Field>): HTMLDetailsElement {
    const tally = el("span", { class: "tally" });
    const recount = (): void => {
        const settings = readSettings(),
            n = samplers.filter(s => s.name in settings).length;
        say(tally, n ? n + " set" : "");
    };
    recount();
    const isOpen = group.isOpen || tally.textContent !== "";
    return el(
        "details",
        { class: "group", open: isOpen },
        el("summary", {}, group.title, tally),
        group.about ? el("p", { class: "quiet" }, group.about) : null,
        ...samplers.map(s => samplerPart(s, fields.get(s.name)!, recount)),
    );
}

function samplerPart(s: Sampler, field: Field, changed: () => void): Node {
    const id = "set-" + s.name,
        fault = el("p", { class: "field-fault", role: "alert" });
    const part = el("div", { class: "setting" });
    const reset = el(
        "button",
        {
            type: "button",
            class: "plain tool reset",
            title: "Back to the server's own",
            "aria-label": s.label + ": back to the server's own",
        },
        icon("retry"),
    );
    const set = (value: Value | undefined): void => {
        changeSetting(s.name, value);
        part.classList.toggle("is-set", value !== undefined);
        reset.hidden = value === undefined;
        changed();
    };
    const control = CONTROLS[s.kind](s, field, id, readSettings()[s.name], set, words => say(fault, words));
    reset.onclick = () => {
        control.show(undefined);
        set(undefined);
        say(fault, "");
    };
    reset.hidden = !(s.name in readSettings());
    part.classList.toggle("is-set", !reset.hidden);
    part.append(
        el(
            "div",
            { class: "setting-head" },
            el("label", { for: id }, s.label),
            el("code", {}, s.name),
            el("span", { class: "grow" }),
            reset,
            ...control.beside,
        ),
    );
    add(
        part,
        ...control.below,
        fault,
        el("p", { class: "quiet", id: id + "-about" }, s.about, el("span", { class: "range" }, rangeWords(field))),
    );
    return part;
}

function rangeWords(f: Field): string {
    const isWide = f.highest === null || f.highest >= 1e9 || f.lowest === null || f.lowest <= -1e9;
    const range = isWide ? "" : " " + f.lowest + " to " + f.highest + ".";
    return range + (f.standard === null || Math.abs(f.standard) >= 1e9 ? "" : " Standard: " + f.standard + ".");
}

interface Control {
    beside: Child[]; // the label
    below: Child[];
    show: (value: Value | undefined) => void;
}
type MakeControl = (
    s: Sampler,
    f: Field,
    id: string,
    value: Value | undefined,
    set: (v: Value | undefined) => void,
    complain: (words: string) => void,
) => Control;

// Why the server would refuse it, or "".
export function checkNumber(n: number, f: Field): string {
    if (!Number.isFinite(n)) return "This is not a number.";
    if (f.type === "integer" && !Number.isInteger(n)) return "This must be a whole number.";
    if (f.lowest !== null && n < f.lowest) return "The least is " + f.lowest + ".";
    if (f.highest !== null && n > f.highest) return "The most is " + f.highest + ".";
    return "";
}

const numberControl: MakeControl = (s, f, id, value, set, complain) => {
    const about = id + "-about",
        placeholder =
            f.standard === null || Math.abs(f.standard) >= 1e9 || s.name === "max_tokens" ? "" : String(f.standard);
    const box = el("input", {
        type: "text",
        inputmode: "decimal",
        id,
        class: "number",
        placeholder,
        "aria-describedby": about,
        autocomplete: "off",
    });
    const slider = s.slide
        ? el("input", {
              type: "range",
              min: s.slide[0],
              max: s.slide[1],
              step: s.slide[2],
              "aria-label": s.label,
              "aria-describedby": about,
          })
        : null;
    const show = (v: Value | undefined): void => {
        box.value = v === undefined ? "" : String(v);
        if (slider) slider.value = String(v ?? f.standard ?? s.slide![0]);
    };
    const take = (): void => {
        const text = box.value.trim().replace(",", "."),
            n = Number(text),
            wrong = text ? checkNumber(n, f) : "";
        complain(wrong);
        box.setAttribute("aria-invalid", String(wrong !== ""));
        if (wrong) return;
        set(text ? n : undefined);
        if (slider && text) slider.value = text;
    };
    box.oninput = take;
    if (slider)
        slider.oninput = () => {
            box.value = slider.value;
            take();
        };
    show(value);
    return { beside: [box], below: [slider], show };
};

const switchControl: MakeControl = (s, f, id, value, set) => {
    const box = el("input", {
        type: "checkbox",
        role: "switch",
        id,
        class: "switch",
        "aria-describedby": id + "-about",
    });
    const isStandard = s.name === "skip_special_tokens" || s.name === "cache_prompt";
    const show = (v: Value | undefined): void => void (box.checked = v === undefined ? isStandard : v === true);
    box.onchange = () => set(box.checked === isStandard ? undefined : box.checked);
    show(value);
    return { beside: [box], below: [], show };
};

// \n and \t stand for the characters that a line cannot have.
const escaped = (line: string): string => line.replace(/\\/g, "\\\\").replace(/\n/g, "\\n").replace(/\t/g, "\\t");
const plain = (line: string): string =>
    line.replace(/\\([\\nt])/g, (_, c: string) => (c === "n" ? "\n" : c === "t" ? "\t" : "\\"));

const linesControl: MakeControl = (s, f, id, value, set) => {
    const box = el("textarea", { id, rows: "2", spellcheck: "false", "aria-describedby": id + "-about" });
    const show = (v: Value | undefined): void => void (box.value = Array.isArray(v) ? v.map(escaped).join("\n") : "");
    box.oninput = () => {
        const list = box.value
            .split("\n")
            .filter(line => line !== "")
            .map(plain);
        set(list.length ? list : undefined);
    };
    show(value);
    return { beside: [], below: [box], show };
};

const textControl: MakeControl = (s, f, id, value, set) => {
    const box = el("textarea", { id, rows: "2", "aria-describedby": id + "-about" });
    const show = (v: Value | undefined): void => void (box.value = typeof v === "string" ? v : "");
    box.oninput = () => set(box.value || undefined);
    show(value);
    return { beside: [], below: [box], show };
};

const choiceControl: MakeControl = (s, f, id, value, set) => {
    const options = ["", ...(s.choices ?? [])].map(c => el("option", { value: c }, c || "as the model does"));
    const box = el("select", { id, "aria-describedby": id + "-about" }, ...options);
    const show = (v: Value | undefined): void => void (box.value = typeof v === "string" ? v : "");
    box.onchange = () => set(box.value || undefined);
    show(value);
    return { beside: [box], below: [], show };
};

const CONTROLS: Record<Sampler["kind"], MakeControl> = {
    number: numberControl,
    switch: switchControl,
    lines: linesControl,
    text: textControl,
    choice: choiceControl,
};

// ---- the page itself ----

function pagePart(library: Library, close: () => void): Node {
    const single = el("input", { type: "checkbox", role: "switch", class: "switch", id: "single-keys" });
    single.checked = prefs.singleKeys;
    single.onchange = () => (prefs.singleKeys = single.checked);
    const forget = (): void => {
        prefs.key = prefs.admin = "";
        toast("The keys are forgotten.");
        close();
    };
    const room = el("p", { class: "quiet" });
    void storageWords(library).then(words => say(room, words));
    return el(
        "section",
        { class: "group page" },
        el("h3", {}, "This page"),
        el(
            "div",
            { class: "setting" },
            el(
                "div",
                { class: "setting-head" },
                el("label", { for: "single-keys" }, "Single-letter keys"),
                el("span", { class: "grow" }),
                single,
            ),
            el("p", { class: "quiet" }, "Such as N for a new conversation, when no box has the focus. ? lists them."),
        ),
        el(
            "div",
            { class: "setting" },
            room,
            prefs.key || prefs.admin
                ? el("button", { type: "button", class: "small", onclick: forget }, "Forget the keys")
                : null,
        ),
    );
}

async function storageWords(library: Library): Promise<string> {
    if (!library.store.isKept)
        return (
            "This browser keeps nothing for this page (a private window?): conversations last until it is closed. " +
            "Export what you need."
        );
    const used = await navigator.storage?.estimate?.().catch(() => null);
    const size = used?.usage ? ", " + Math.max(0.1, used.usage / 1e6).toFixed(1) + " MB" : "";
    return (
        "Conversations and keys are kept in this browser alone (" +
        library.headings.length +
        " conversations" +
        size +
        ")."
    );
}
