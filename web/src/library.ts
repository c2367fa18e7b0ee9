// library.ts — the conversations of this browser: which there are, which one is open, which are being answered. Writes
// are gathered for a second, so that streaming does not wear the disk, and made at once when the page is left. Other
// tabs hear of every write.
import type { Run } from "./answer";
import { prefs } from "./prefs";
import { Signal } from "./signal";
import { headingOf, openStore, type Store } from "./store";
import { newConversation } from "./tree";
import type { Conversation, Heading } from "./types";

const WAIT_MS = 1000;

export class Library {
    readonly listed = new Signal<void>(); // the list has changed
    readonly opened = new Signal<Conversation>(); // another conversation is shown
    readonly touched = new Signal<Conversation>(); // something in a conversation has changed
    readonly failed = new Signal<string>(); // the browser did not keep something
    readonly runs = new Map<string, Run>();
    headings: Heading[] = [];
    current: Conversation = newConversation(prefs.system);
    private readonly waiting = new Map<string, Conversation>();
    private timer = 0;
    private readonly tabs = typeof BroadcastChannel === "function" ? new BroadcastChannel("quipu") : null;

    private constructor(readonly store: Store) {}

    static async start(): Promise<Library> {
        const library = new Library(await openStore());
        await library.refresh();
        addEventListener("pagehide", () => void library.flush());
        document.addEventListener("visibilitychange", () => document.hidden && void library.flush());
        library.tabs?.addEventListener("message", e => void library.hear(String(e.data)));
        return library;
    }

    get run(): Run | undefined {
        return this.runs.get(this.current.id);
    }

    private async refresh(): Promise<void> {
        this.headings = (await this.store.headings()).sort((a, b) => b.updated - a.updated);
        this.listed.tell();
    }

    // Another tab has written or erased a conversation.
    private async hear(id: string): Promise<void> {
        await this.refresh();
        if (id !== this.current.id || this.runs.has(id) || this.waiting.has(id)) return;
        const fresh = await this.store.read(id);
        if (fresh) this.show(fresh);
    }

    private show(c: Conversation): void {
        this.current = c;
        this.opened.tell(c);
    }

    fresh(): void {
        this.show(newConversation(prefs.system));
    }

    async get(id: string): Promise<Conversation | undefined> {
        return this.runs.get(id)?.conversation ?? this.waiting.get(id) ?? (await this.store.read(id));
    }

    // False where there is no such conversation.
    async open(id: string): Promise<boolean> {
        if (id === this.current.id) return true;
        const c = await this.get(id);
        if (c) this.show(c);
        return c !== undefined;
    }

    // To be called after every change. Conversations nobody has said anything in are not kept.
    touch(c: Conversation): void {
        this.touched.tell(c);
        if (!c.messages.length) return;
        this.waiting.set(c.id, c);
        this.timer ||= window.setTimeout(() => void this.flush(), WAIT_MS);
    }

    async flush(): Promise<void> {
        clearTimeout(this.timer);
        this.timer = 0;
        const all = [...this.waiting.values()];
        this.waiting.clear();
        await Promise.all(all.map(c => this.write(c)));
    }

    private async write(c: Conversation): Promise<void> {
        try {
            await this.store.write(c);
        } catch (e) {
            const isFull = e instanceof DOMException && e.name === "QuotaExceededError";
            this.failed.tell(
                isFull
                    ? "The browser's storage is full. Export conversations and delete some; new messages are " +
                          "not kept until then."
                    : "The browser could not keep the conversation: " + String(e),
            );
            return;
        }
        const heading = headingOf(c);
        this.headings = [heading, ...this.headings.filter(h => h.id !== c.id)].sort((a, b) => b.updated - a.updated);
        this.listed.tell();
        this.tabs?.postMessage(c.id);
    }

    // At once: a new conversation is in the list as soon as its first message is there.
    async keep(c: Conversation): Promise<void> {
        this.touch(c);
        await this.flush();
    }

    async erase(id: string): Promise<Conversation | undefined> {
        this.runs.get(id)?.abort.abort();
        const c = await this.get(id);
        this.waiting.delete(id);
        await this.store.erase(id);
        this.tabs?.postMessage(id);
        await this.refresh();
        if (id === this.current.id) this.fresh();
        return c;
    }

    async all(): Promise<Conversation[]> {
        await this.flush();
        const found = await Promise.all(this.headings.map(h => this.get(h.id)));
        return found.filter((c): c is Conversation => c !== undefined);
    }
}
