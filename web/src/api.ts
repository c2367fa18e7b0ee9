// api.ts — talks to the server that sent the page. Every failure becomes a Problem with what the server said.
import { prefs } from "./prefs";
import { SseParser } from "./sse";
import type { Fault } from "./types";

export class Problem extends Error {
    constructor(readonly fault: Fault) {
        super(fault.message);
    }
}

export type KeyKind = "api" | "admin";

function headers(kind: KeyKind): Record<string, string> {
    const all: Record<string, string> = {};
    if (kind === "admin" && prefs.admin) all["x-admin-key"] = prefs.admin;
    else if (prefs.key) all["Authorization"] = "Bearer " + prefs.key;
    return all;
}

// The members of {"error": {...}}, whatever else came instead.
export function faultOf(status: number, body: unknown, retryAfter: number | null): Fault {
    const error = (body as { error?: { message?: unknown; code?: unknown } } | null)?.error;
    return {
        status,
        code: typeof error?.code === "string" ? error.code : "",
        message: typeof error?.message === "string" ? error.message : "the server answered " + status,
        retryAfter,
    };
}

async function problemOf(answer: Response): Promise<Problem> {
    const wait = Number(answer.headers.get("retry-after"));
    const body: unknown = await answer.json().catch(() => null);
    return new Problem(faultOf(answer.status, body, wait > 0 ? wait : null));
}

export async function call(path: string, options: RequestInit = {}, kind: KeyKind = "api"): Promise<Response> {
    let answer: Response;
    try {
        answer = await fetch(path, {
            ...options,
            headers: { ...headers(kind), ...options.headers },
            cache: "no-store",
        });
    } catch (e) {
        if (e instanceof DOMException && e.name === "AbortError") throw e;
        throw new Problem({ status: 0, code: "", message: "the server cannot be reached", retryAfter: null });
    }
    if (!answer.ok) throw await problemOf(answer);
    return answer;
}

export async function getJson<T>(path: string, kind: KeyKind = "api"): Promise<T> {
    return (await call(path, {}, kind)).json() as Promise<T>;
}

// The events of one streamed answer as parsed JSON. Ends at [DONE]; an error event is thrown as a Problem. Leaving the
// loop or aborting the signal closes the connection, and with it the server's job.
export async function* stream(path: string, body: object, signal: AbortSignal): AsyncGenerator<unknown> {
    const answer = await call(path, {
        method: "POST",
        body: JSON.stringify(body),
        signal,
        headers: { "Content-Type": "application/json" },
    });
    if (!answer.body) return;
    const reader = answer.body.getReader(),
        decoder = new TextDecoder(),
        parser = new SseParser();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) break;
            for (const event of parser.push(decoder.decode(value, { stream: true }))) {
                if (event.data === "[DONE]") return;
                const chunk: unknown = JSON.parse(event.data);
                if ((chunk as { error?: unknown }).error) throw new Problem(faultOf(500, chunk, null));
                yield chunk;
            }
        }
    } catch (e) {
        if (e instanceof TypeError)
            throw new Problem({ status: 0, code: "", message: "the connection broke off", retryAfter: null });
        throw e;
    } finally {
        reader.cancel().catch(() => undefined);
    }
    throw new Problem({ status: 0, code: "", message: "the answer broke off before its end", retryAfter: null });
}
