// store.ts — conversations in the browser's IndexedDB, with a memory-only stand-in where the browser has none (private
// windows): then the page works and says that nothing is kept.
import { titleOf } from "./tree";
import type { Conversation, Heading } from "./types";

export interface Store {
    isKept: boolean;
    headings(): Promise<Heading[]>;
    read(id: string): Promise<Conversation | undefined>;
    write(c: Conversation): Promise<void>;
    erase(id: string): Promise<void>;
}

export function headingOf(c: Conversation): Heading {
    return { id: c.id, title: titleOf(c), updated: c.updated, count: c.messages.length };
}

class MemoryStore implements Store {
    readonly isKept = false;
    private readonly all = new Map<string, Conversation>();

    headings = async (): Promise<Heading[]> => [...this.all.values()].map(headingOf);
    read = async (id: string): Promise<Conversation | undefined> => this.all.get(id);
    write = async (c: Conversation): Promise<void> => void this.all.set(c.id, c);
    erase = async (id: string): Promise<void> => void this.all.delete(id);
}

function asked<T>(request: IDBRequest<T>): Promise<T> {
    return new Promise((done, fail) => {
        request.onsuccess = () => done(request.result);
        request.onerror = () => fail(request.error);
    });
}

function finished(change: IDBTransaction): Promise<void> {
    return new Promise((done, fail) => {
        change.oncomplete = () => done();
        change.onabort = () => fail(change.error);
        change.onerror = () => fail(change.error);
    });
}

class DatabaseStore implements Store {
    readonly isKept = true;
    constructor(private readonly db: IDBDatabase) {}

    headings(): Promise<Heading[]> {
        return asked(this.db.transaction("headings").objectStore("headings").getAll());
    }

    read(id: string): Promise<Conversation | undefined> {
        return asked(this.db.transaction("conversations").objectStore("conversations").get(id));
    }

    // Both in one change: the list never names what is not there.
    write(c: Conversation): Promise<void> {
        const change = this.db.transaction(["headings", "conversations"], "readwrite");
        change.objectStore("headings").put(headingOf(c));
        change.objectStore("conversations").put(c);
        return finished(change);
    }

    erase(id: string): Promise<void> {
        const change = this.db.transaction(["headings", "conversations"], "readwrite");
        change.objectStore("headings").delete(id);
        change.objectStore("conversations").delete(id);
        return finished(change);
    }
}

export async function openStore(): Promise<Store> {
    try {
        const request = indexedDB.open("quipu", 1);
        request.onupgradeneeded = () => {
            request.result.createObjectStore("headings", { keyPath: "id" });
            request.result.createObjectStore("conversations", { keyPath: "id" });
        };
        return new DatabaseStore(await asked(request));
    } catch {
        return new MemoryStore();
    }
}
