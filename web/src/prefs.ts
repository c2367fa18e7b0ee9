// prefs.ts — what the user has chosen, kept in the browser: keys, sampler settings, the system prompt of new
// conversations, shortcuts. Only settings that differ from the server's own are kept, and only these are sent.
import { Signal } from "./signal";

export type Value = number | boolean | string | string[];
export type Settings = Record<string, Value>;

const PLACES = {
    key: "quipu.key",
    admin: "quipu.admin",
    settings: "quipu.settings",
    system: "quipu.system",
    single: "quipu.singleKeys",
    sidebar: "quipu.sidebar",
};
type Place = keyof typeof PLACES;

// Where the browser keeps nothing, what is set lasts as long as the page.
const unkept = new Map<Place, string>();

function get(place: Place): string | null {
    try {
        return localStorage.getItem(PLACES[place]) ?? unkept.get(place) ?? null;
    } catch {
        return unkept.get(place) ?? null;
    }
}

function set(place: Place, value: string): void {
    unkept.set(place, value);
    try {
        if (value) localStorage.setItem(PLACES[place], value);
        else localStorage.removeItem(PLACES[place]);
    } catch {
        // kept in `unkept`
    }
}

export const settingsChanged = new Signal<void>();

function isValue(v: unknown): v is Value {
    return (
        typeof v === "boolean" ||
        typeof v === "string" ||
        (typeof v === "number" && Number.isFinite(v)) ||
        (Array.isArray(v) && v.every(x => typeof x === "string"))
    );
}

export function readSettings(): Settings {
    const settings: Settings = Object.create(null);
    try {
        const kept: unknown = JSON.parse(get("settings") ?? "{}");
        for (const [name, value] of Object.entries(kept as object)) if (isValue(value)) settings[name] = value;
    } catch {
        // unreadable: as if nothing were set
    }
    return settings;
}

// undefined: back to the server's own.
export function changeSetting(name: string, value: Value | undefined): void {
    const settings = readSettings();
    if (value === undefined) delete settings[name];
    else settings[name] = value;
    set("settings", JSON.stringify(settings));
    settingsChanged.tell();
}

export function replaceSettings(settings: Settings): void {
    set("settings", JSON.stringify(settings));
    settingsChanged.tell();
}

export const prefs = {
    get key(): string {
        return get("key") ?? "";
    },
    set key(value: string) {
        set("key", value);
    },
    get admin(): string {
        return get("admin") ?? "";
    },
    set admin(value: string) {
        set("admin", value);
    },
    get system(): string {
        return get("system") ?? "";
    },
    set system(value: string) {
        set("system", value);
    },
    get singleKeys(): boolean {
        return get("single") !== "off";
    },
    set singleKeys(on: boolean) {
        set("single", on ? "" : "off");
    },
    get sidebar(): boolean {
        return get("sidebar") !== "off";
    },
    set sidebar(on: boolean) {
        set("sidebar", on ? "" : "off");
    },
};
