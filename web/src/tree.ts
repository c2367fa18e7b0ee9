// tree.ts — a conversation's messages as a tree: what is shown is one path from a root to a leaf.
// Editing a question or asking again adds a sibling, so nothing that was said is lost; `chosen` remembers at each fork
// which way is shown, also below the ways that are not.
import type { Conversation, Message, Role } from "./types";

export const ROOT = "root";

export function makeId(): string {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return "m" + Array.from(bytes, b => b.toString(16).padStart(2, "0")).join("");
}

export function newConversation(system: string): Conversation {
    const now = Date.now();
    return { id: makeId(), title: "", created: now, updated: now, system, messages: [], chosen: {} };
}

export function newMessage(role: Role, parent: string | null, text: string): Message {
    return {
        id: makeId(),
        parent,
        role,
        text,
        reasoning: "",
        created: Date.now(),
        model: "",
        ending: role === "user" ? "stop" : "",
        thoughtSeconds: null,
        figures: null,
        fault: null,
    };
}

type Children = Map<string, Message[]>;

function childrenOf(c: Conversation): Children {
    const all: Children = new Map();
    for (const m of c.messages) {
        const key = m.parent ?? ROOT;
        const list = all.get(key);
        if (list) list.push(m);
        else all.set(key, [m]);
    }
    return all;
}

function pick(c: Conversation, key: string, list: Message[]): Message {
    return list.find(m => m.id === c.chosen[key]) ?? list[list.length - 1]!;
}

// The messages that are shown, from the first to the last.
export function path(c: Conversation): Message[] {
    const children = childrenOf(c),
        shown: Message[] = [];
    let key = ROOT;
    for (let list = children.get(key); list?.length; list = children.get(key)) {
        const next = pick(c, key, list);
        shown.push(next);
        key = next.id;
    }
    return shown;
}

export function find(c: Conversation, id: string | null): Message | undefined {
    return c.messages.find(m => m.id === id);
}

// The messages from the root down to this one.
export function lineage(c: Conversation, id: string | null): Message[] {
    const byId = new Map(c.messages.map(m => [m.id, m])),
        line: Message[] = [];
    for (let m = id === null ? undefined : byId.get(id); m; m = m.parent === null ? undefined : byId.get(m.parent))
        line.push(m);
    return line.reverse();
}

export function siblings(c: Conversation, message: Message): Message[] {
    return c.messages.filter(m => m.parent === message.parent);
}

// Adds it as the newest child of its parent and shows it.
export function append(c: Conversation, message: Message): void {
    c.messages.push(message);
    c.updated = Date.now();
    choose(c, message);
}

export function choose(c: Conversation, message: Message): void {
    c.chosen[message.parent ?? ROOT] = message.id;
}

// Shows the sibling `by` places further; false at the ends.
export function step(c: Conversation, message: Message, by: number): boolean {
    const all = siblings(c, message),
        next = all[all.indexOf(message) + by];
    if (!next) return false;
    choose(c, next);
    return true;
}

// Takes away a message and all that follows from it; gives back what was taken.
export function remove(c: Conversation, id: string): Message[] {
    const gone = new Set([id]);
    for (const m of c.messages) if (m.parent !== null && gone.has(m.parent)) gone.add(m.id);
    const taken = c.messages.filter(m => gone.has(m.id));
    c.messages = c.messages.filter(m => !gone.has(m.id));
    for (const [key, child] of Object.entries(c.chosen)) if (gone.has(key) || gone.has(child)) delete c.chosen[key];
    c.updated = Date.now();
    return taken;
}

export function titleOf(c: Conversation): string {
    if (c.title) return c.title;
    const first =
        c.messages
            .find(m => m.role === "user")
            ?.text.replace(/\s+/g, " ")
            .trim() ?? "";
    return first.length > 60 ? first.slice(0, 58).trimEnd() + "…" : first || "New conversation";
}
