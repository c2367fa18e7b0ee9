// problems.ts — errors in words: what happened, and what to do about it.
import type { Fault } from "./types";

export interface Advice {
    title: string;
    advice: string;
    action: "retry" | "key" | "settings" | "none";
}

interface Row {
    is: (f: Fault) => boolean;
    title: string;
    advice: string;
    action: Advice["action"];
}

const ROWS: Row[] = [
    {
        is: f => f.status === 0,
        title: "The server is not there",
        action: "retry",
        advice: "Is quipu serve still running? Start it again, then try once more.",
    },
    {
        is: f => f.status === 401,
        title: "The server wants a key",
        action: "key",
        advice: "It was shown when the server first started and is in its file api_tokens.yml.",
    },
    {
        is: f => f.code === "bad_host",
        title: "This address is not allowed",
        action: "none",
        advice:
            "Without keys the server answers only under localhost. Open http://localhost instead, or add the name to " +
            "allowed_hosts.",
    },
    {
        is: f => f.status === 403,
        title: "This needs the admin key",
        action: "key",
        advice: "The key in use is an api key. The admin key is in api_tokens.yml too.",
    },
    {
        is: f => f.code === "model_loading",
        title: "The model is still loading",
        action: "retry",
        advice: "Large models take a while to be read from disk. Try again in a moment.",
    },
    {
        is: f => f.code === "model_not_loaded",
        title: "No model is loaded",
        action: "retry",
        advice: "Start the server with -m FOLDER, or load one under Model.",
    },
    {
        is: f => f.code === "server_overloaded",
        title: "The server is busy",
        action: "retry",
        advice: "Its queue is full. Try again in a moment.",
    },
    {
        is: f => f.code === "draining",
        title: "The server is shutting down",
        action: "retry",
        advice: "It finishes what it has begun and takes nothing new. Try again when it is back.",
    },
    {
        is: f => f.code === "context_length_exceeded",
        title: "The conversation is too long for the model",
        action: "none",
        advice: "Start a new conversation, edit an earlier message, or lower the longest answer under Settings.",
    },
    {
        is: f => f.code === "template_error",
        title: "The model's template refuses these messages",
        action: "none",
        advice: "Some models take no system prompt, or want questions and answers to alternate.",
    },
    {
        is: f => f.status === 400,
        title: "The server refuses the request",
        action: "settings",
        advice: "Mostly this is one of the settings; the words above name it.",
    },
    {
        is: f => f.status === 413,
        title: "The message is too large",
        action: "none",
        advice: "Shorten it, then send it again.",
    },
    { is: f => f.status === 429, title: "Too many requests", action: "retry", advice: "Try again in a moment." },
    {
        is: f => f.status === 503,
        title: "The server cannot answer now",
        action: "retry",
        advice: "Try again in a moment.",
    },
];

export function explain(f: Fault): Advice {
    const row = ROWS.find(r => r.is(f));
    if (row) return { title: row.title, advice: row.advice, action: row.action };
    return {
        title: "Something went wrong",
        advice: "Trying again may help; the server's log says more.",
        action: "retry",
    };
}
