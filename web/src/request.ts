// request.ts — the body of a chat request: the messages down to the answer, and the settings that were changed.
import { readSettings, type Settings } from "./prefs";
import { lineage } from "./tree";
import type { Conversation, Message } from "./types";

function turn(m: Message): object {
    return m.reasoning
        ? { role: m.role, content: m.text, reasoning_content: m.reasoning }
        : { role: m.role, content: m.text };
}

// Answers that failed before their first word say nothing to a model.
function isSaid(m: Message): boolean {
    return m.role === "user" || m.text !== "" || m.reasoning !== "";
}

export function buildRequest(
    c: Conversation,
    answer: Message,
    continues: boolean,
    settings: Settings = readSettings(),
): Record<string, unknown> {
    const said = lineage(c, continues ? answer.id : answer.parent)
        .filter(isSaid)
        .map(turn);
    const system = c.system.trim() ? [{ role: "system", content: c.system }] : [];
    return {
        ...settings,
        messages: [...system, ...said],
        stream: true,
        return_progress: true,
        stream_options: { include_usage: true, continuous_usage_stats: true },
        ...(continues ? { continue_final_message: true, add_generation_prompt: false } : {}),
    };
}
