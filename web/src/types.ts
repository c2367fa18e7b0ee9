// types.ts — what the page keeps: conversations as trees of messages, and what is known of each answer.

export interface Figures {
    promptTokens: number;
    cachedTokens: number;
    tokens: number;
    reasoningTokens: number;
    promptSeconds: number | null;
    firstSeconds: number | null; // from sending to the first text, as seen here
    perSecond: number | null;
    seconds: number | null; // of writing
}

export interface Fault {
    status: number; // 0: the server was not reached
    code: string;
    message: string;
    retryAfter: number | null; // seconds
}

export type Role = "user" | "assistant";
// "" while it is being written; cut: the page was closed meanwhile
export type Ending = "" | "stop" | "length" | "stopped" | "failed" | "cut";

export interface Message {
    id: string;
    parent: string | null;
    role: Role;
    text: string;
    reasoning: string;
    created: number; // ms since 1970
    model: string;
    ending: Ending;
    thoughtSeconds: number | null;
    figures: Figures | null;
    fault: Fault | null;
}

export interface Conversation {
    id: string;
    title: string;
    created: number;
    updated: number;
    system: string;
    messages: Message[]; // in the order of their making
    chosen: Record<string, string>; // which child of a message is shown; of ROOT: which first message
}

// What the list shows without reading the messages.
export interface Heading {
    id: string;
    title: string;
    updated: number;
    count: number;
}
