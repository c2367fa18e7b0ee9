// answer.ts — one answer while it is being written: asks the server, and adds what arrives to its message.
// `changed` is called for every event; who draws it decides when.
import { Problem, stream } from "./api";
import { buildRequest } from "./request";
import type { Conversation, Figures, Message } from "./types";

export interface Run {
    conversation: Conversation;
    message: Message;
    abort: AbortController;
    phase: "waiting" | "reading" | "thinking" | "writing";
    read: { done: number; total: number } | null; // how much of the prompt
    began: number; // performance.now()
}

interface Usage {
    prompt_tokens?: number;
    completion_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
    prompt_time?: number;
    completion_time?: number;
    completion_tokens_per_sec?: number | null;
}
interface Chunk {
    model?: string;
    usage?: Usage | null;
    prompt_progress?: { total: number; processed: number };
    choices?: {
        delta?: { content?: string; reasoning_content?: string; reasoning?: string };
        finish_reason?: string | null;
    }[];
}

export function newRun(conversation: Conversation, message: Message): Run {
    return {
        conversation,
        message,
        abort: new AbortController(),
        phase: "waiting",
        read: null,
        began: performance.now(),
    };
}

function takeUsage(m: Message, u: Usage, firstSeconds: number | null): void {
    const figures: Figures = {
        promptTokens: u.prompt_tokens ?? 0,
        cachedTokens: u.prompt_tokens_details?.cached_tokens ?? 0,
        tokens: u.completion_tokens ?? 0,
        reasoningTokens: u.completion_tokens_details?.reasoning_tokens ?? 0,
        promptSeconds: u.prompt_time ?? null,
        firstSeconds,
        perSecond: u.completion_tokens_per_sec ?? null,
        seconds: u.completion_time ?? null,
    };
    m.figures = figures;
}

// The state of reading one stream.
class Reader {
    private first: number | null = null; // seconds to the first text
    private thinking = 0; // when the thoughts began
    constructor(private readonly run: Run) {}

    take(chunk: Chunk): void {
        const m = this.run.message,
            choice = chunk.choices?.[0];
        if (chunk.model) m.model = chunk.model;
        if (chunk.prompt_progress) {
            this.run.phase = "reading";
            this.run.read = { done: chunk.prompt_progress.processed, total: chunk.prompt_progress.total };
        }
        this.takeThought(choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "");
        this.takeText(choice?.delta?.content ?? "");
        if (choice?.finish_reason) m.ending = choice.finish_reason === "length" ? "length" : "stop";
        if (chunk.usage) {
            takeUsage(m, chunk.usage, this.first);
            this.guessRate(m.figures!);
        }
    }

    // Until the server has told its own figure.
    private guessRate(f: Figures): void {
        const passed = (performance.now() - this.run.began) / 1000 - (this.first ?? 0);
        if (f.perSecond === null && this.first !== null && f.tokens > 1 && passed > 0.2)
            f.perSecond = (f.tokens - 1) / passed;
    }

    private mark(): void {
        this.first ??= (performance.now() - this.run.began) / 1000;
    }

    private takeThought(text: string): void {
        if (!text) return;
        this.mark();
        this.thinking ||= performance.now();
        this.run.phase = "thinking";
        this.run.message.reasoning += text;
        this.run.message.thoughtSeconds = (performance.now() - this.thinking) / 1000;
    }

    private takeText(text: string): void {
        if (!text) return;
        this.mark();
        this.run.phase = "writing";
        this.run.message.text += text;
    }
}

// Comes back when the answer has ended, in whatever way; how is in message.ending and message.fault.
export async function write(run: Run, continues: boolean, changed: () => void): Promise<void> {
    const m = run.message,
        reader = new Reader(run);
    const body = buildRequest(run.conversation, m, continues);
    m.ending = "";
    m.fault = null;
    try {
        for await (const chunk of stream("/v1/chat/completions", body, run.abort.signal)) {
            reader.take(chunk as Chunk);
            changed();
        }
        m.ending ||= "stop";
    } catch (e) {
        if (run.abort.signal.aborted) {
            m.ending = "stopped";
            return;
        }
        m.ending = "failed";
        m.fault = e instanceof Problem ? e.fault : { status: 0, code: "", message: String(e), retryAfter: null };
    }
}
