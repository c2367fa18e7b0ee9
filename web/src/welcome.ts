// welcome.ts — what an empty conversation shows: a greeting, who will answer, and a few ways to begin.
import { byId, el, replace, say } from "./dom";
import type { ModelWatch } from "./model";

const PROMPTS: [string, string][] = [
    [
        "Tell a story",
        "Tell me a short story about a lighthouse keeper who receives a letter that was posted a hundred years ago.",
    ],
    ["Explain something", "Explain how a bicycle stays upright, first for a child, then for an engineer."],
    ["Write some code", "Write a Python function that finds the longest run of equal values in a list, with a test."],
    [
        "Think it through",
        "I have two evenings a week for a year. Help me decide between learning the cello and learning Spanish.",
    ],
];

export function showWelcome(model: ModelWatch, fill: (text: string) => void): void {
    const answers = el("p", { class: "quiet" });
    const cards = PROMPTS.map(([title, text]) =>
        el(
            "button",
            { type: "button", class: "card", onclick: () => fill(text) },
            el("strong", {}, title),
            el("span", {}, text),
        ),
    );
    const update = (): void => {
        const words = {
            ready: model.words + " is listening. What you write stays between this browser and your server.",
            loading: "The model is being loaded; you can write meanwhile.",
            none: "No model is loaded. Load one under the chip above, or start the server with -m FOLDER.",
            away: "The server does not answer. Is quipu serve running?",
            locked: "The server wants a key. Press “Key needed” above to enter it.",
        }[model.state];
        say(answers, words);
    };
    replace(
        byId("welcome"),
        el("h2", {}, "What shall we talk about?"),
        answers,
        el("div", { class: "cards" }, ...cards),
    );
    model.changed.on(update);
    update();
}
