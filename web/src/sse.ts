// sse.ts — reads server-sent events out of text that arrives in pieces of any size.
// An event ends with an empty line; one that is not ended is no event (the stream was cut off). Lines end with LF, CRLF
// or CR, and a CR at the end of a piece may be the first half of a CRLF.

export interface SseEvent {
    name: string;
    data: string;
}

export class SseParser {
    private rest = "";
    private name = "";
    private data: string[] = [];
    private isFirst = true;

    push(piece: string): SseEvent[] {
        const events: SseEvent[] = [];
        this.rest += piece;
        if (this.isFirst && this.rest) {
            this.rest = this.rest.replace(/^\uFEFF/, "");
            this.isFirst = false;
        }
        let at = 0;
        for (;;) {
            const end = this.findEnd(at);
            if (end < 0) break;
            this.takeLine(this.rest.slice(at, end), events);
            at = end + (this.rest.startsWith("\r\n", end) ? 2 : 1);
        }
        this.rest = this.rest.slice(at);
        return events;
    }

    // Where the line from `at` on ends; -1: not known yet.
    private findEnd(at: number): number {
        for (let i = at; i < this.rest.length; i++) {
            const c = this.rest[i];
            if (c === "\n") return i;
            if (c === "\r") return i + 1 < this.rest.length ? i : -1;
        }
        return -1;
    }

    private takeLine(line: string, events: SseEvent[]): void {
        if (!line) {
            if (this.data.length) events.push({ name: this.name || "message", data: this.data.join("\n") });
            this.name = "";
            this.data = [];
            return;
        }
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") this.data.push(value);
        else if (field === "event") this.name = value;
    }
}
