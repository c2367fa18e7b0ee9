// transfer.ts — conversations as a file, and back. A file is somebody else's data: each member is checked by name and
// type, what is not known is left out, and all ids are made anew, so that nothing in it can reach beyond itself.
import { makeId, ROOT } from "./tree";
import type { Conversation, Ending, Fault, Figures, Message } from "./types";

export const FORMAT = "quipu-chat";
export const MOST_BYTES = 64 << 20;
const MOST_CONVERSATIONS = 10000,
    MOST_MESSAGES = 20000,
    MOST_TEXT = 8 << 20;

export function writeFile(conversations: Conversation[]): string {
    return JSON.stringify({ format: FORMAT, version: 1, exported: new Date().toISOString(), conversations }, null, 1);
}

export class FileFault extends Error {}

type Thing = Record<string, unknown>;

function thing(value: unknown, what: string): Thing {
    if (typeof value !== "object" || value === null || Array.isArray(value))
        throw new FileFault(what + " is not an object");
    return value as Thing;
}

function list(value: unknown, what: string, most: number): unknown[] {
    if (!Array.isArray(value)) throw new FileFault(what + " is not a list");
    if (value.length > most)
        throw new FileFault(what + " has " + value.length + " entries, at most " + most + " are read");
    return value;
}

function str(value: unknown, most = MOST_TEXT): string {
    return typeof value === "string" ? value.slice(0, most) : "";
}

function num(value: unknown): number | null {
    return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;
}

function readFigures(value: unknown): Figures | null {
    if (typeof value !== "object" || value === null) return null;
    const f = value as Thing;
    return {
        promptTokens: num(f.promptTokens) ?? 0,
        cachedTokens: num(f.cachedTokens) ?? 0,
        tokens: num(f.tokens) ?? 0,
        reasoningTokens: num(f.reasoningTokens) ?? 0,
        promptSeconds: num(f.promptSeconds),
        firstSeconds: num(f.firstSeconds),
        perSecond: num(f.perSecond),
        seconds: num(f.seconds),
    };
}

function readFault(value: unknown): Fault | null {
    if (typeof value !== "object" || value === null) return null;
    const f = value as Thing;
    return {
        status: num(f.status) ?? 0,
        code: str(f.code, 100),
        message: str(f.message, 2000),
        retryAfter: num(f.retryAfter),
    };
}

function readEnding(value: unknown): Ending {
    const known: Ending[] = ["stop", "length", "stopped", "failed", "cut"];
    return known.find(e => e === value) ?? "cut";
}

// A parent must come before its children: so the messages cannot form a ring.
function readMessage(value: unknown, where: string, ids: Map<string, string>): Message {
    const m = thing(value, where);
    if (m.role !== "user" && m.role !== "assistant")
        throw new FileFault(where + ": role is neither user nor assistant");
    const parent = m.parent === null || m.parent === undefined ? null : ids.get(str(m.parent));
    if (parent === undefined) throw new FileFault(where + ": its parent does not come before it");
    const own = str(m.id),
        id = makeId();
    if (!own || ids.has(own)) throw new FileFault(where + ": its id is missing or there twice");
    ids.set(own, id);
    return {
        id,
        parent,
        role: m.role,
        text: str(m.text),
        reasoning: str(m.reasoning),
        created: num(m.created) ?? 0,
        model: str(m.model, 300),
        ending: readEnding(m.ending),
        thoughtSeconds: num(m.thoughtSeconds),
        figures: readFigures(m.figures),
        fault: readFault(m.fault),
    };
}

function readConversation(value: unknown, where: string): Conversation {
    const c = thing(value, where),
        ids = new Map<string, string>(),
        now = Date.now();
    const messages = list(c.messages, where + ": messages", MOST_MESSAGES).map((m, i) =>
        readMessage(m, where + ", message " + (i + 1), ids),
    );
    const chosen: Record<string, string> = {};
    const kept = typeof c.chosen === "object" && c.chosen !== null ? Object.entries(c.chosen) : [];
    for (const [key, child] of kept) {
        const parent = key === ROOT ? ROOT : ids.get(key),
            id = ids.get(str(child));
        if (parent && id) chosen[parent] = id;
    }
    return {
        id: makeId(),
        title: str(c.title, 300),
        created: num(c.created) ?? now,
        updated: num(c.updated) ?? now,
        system: str(c.system),
        messages,
        chosen,
    };
}

// Throws a FileFault that says what is wrong and where.
export function readFile(text: string): Conversation[] {
    let whole: unknown;
    try {
        whole = JSON.parse(text);
    } catch {
        throw new FileFault("it is not JSON");
    }
    const file = thing(whole, "the file");
    if (file.format !== FORMAT)
        throw new FileFault("it is not an export of this page (format is not “" + FORMAT + "”)");
    if (file.version !== 1)
        throw new FileFault("it is of version " + String(file.version).slice(0, 20) + ", known is 1");
    return list(file.conversations, "conversations", MOST_CONVERSATIONS).map((c, i) =>
        readConversation(c, "conversation " + (i + 1)),
    );
}
