// keybox.ts — asks for the api or the admin key, tries it, and keeps it in the browser.
import { getJson, Problem, type KeyKind } from "./api";
import { openDialog } from "./dialog";
import { el } from "./dom";
import { prefs } from "./prefs";

const WORDS = {
    api: "Paste the api key. It was shown when the server first started, and is in its file api_tokens.yml. This browser keeps it.",
    admin:
        "Paste the admin key, to see the jobs of all callers and to load models. It is in the server's file api_tokens.yml. " +
        "This browser keeps it.",
};

interface Permission {
    permission: "api" | "admin";
}

// What is wrong with a key, or null where it is good.
async function tryKey(kind: KeyKind, key: string): Promise<string | null> {
    const name = kind === "admin" ? "admin" : "key",
        before = prefs[name];
    prefs[name] = key;
    try {
        const { permission } = await getJson<Permission>("/v1/auth/permission", kind);
        if (kind === "api" || permission === "admin") return null;
        prefs[name] = before;
        return "This is an api key; here the admin key is needed.";
    } catch (e) {
        prefs[name] = before;
        return e instanceof Problem && e.fault.status !== 401
            ? "The server cannot be asked: " + e.fault.message
            : "The server does not know this key.";
    }
}

let open: Promise<boolean> | null = null;

// True when there is a key that works. Asked only once at a time.
export function askKey(kind: KeyKind): Promise<boolean> {
    open ??= show(kind).finally(() => (open = null));
    return open;
}

function show(kind: KeyKind): Promise<boolean> {
    return new Promise(done => {
        let isGood = false;
        const input = el("input", {
            type: "password",
            id: "key",
            autocomplete: "off",
            spellcheck: "false",
            required: true,
            "aria-describedby": "key-fault",
        });
        const fault = el("p", { class: "field-fault", id: "key-fault", role: "alert" });
        const submit = async (e: Event): Promise<void> => {
            e.preventDefault();
            fault.textContent = (await tryKey(kind, input.value.trim())) ?? "";
            if (fault.textContent) return input.select();
            isGood = true;
            dialog.close();
        };
        const form = el(
            "form",
            { class: "stack", onsubmit: submit },
            el("p", { class: "quiet" }, WORDS[kind]),
            el("label", { for: "key" }, kind === "admin" ? "Admin key" : "Api key"),
            input,
            fault,
            el("div", { class: "row end" }, el("button", { type: "submit", class: "main" }, "Use this key")),
        );
        const dialog = openDialog(kind === "admin" ? "Admin key" : "The server wants a key", "narrow", form);
        dialog.addEventListener("close", () => done(isGood));
        input.focus();
    });
}
