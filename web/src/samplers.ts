// samplers.ts — the settings in words: how they are called, what they do, in which group they stand. Ranges and standard
// values are not here: fields.ts has them from the server. A setting that the server does not have is not shown.

export type Kind = "number" | "switch" | "lines" | "text" | "choice";
export interface Sampler {
    name: string; // the member of the request
    label: string;
    kind: Kind;
    about: string;
    slide?: [number, number, number]; // lowest, highest, step of the slider; without it only the number is shown
    choices?: string[];
}
export interface Group {
    title: string;
    about: string;
    isOpen?: boolean;
    samplers: Sampler[];
}

const number = (name: string, label: string, about: string, slide?: [number, number, number]): Sampler => ({
    name,
    label,
    kind: "number",
    about,
    slide,
});
const toggle = (name: string, label: string, about: string): Sampler => ({ name, label, kind: "switch", about });
const lines = (name: string, label: string, about: string): Sampler => ({ name, label, kind: "lines", about });

export const GROUPS: Group[] = [
    {
        title: "Basics",
        isOpen: true,
        about: "These four are enough for most conversations.",
        samplers: [
            number(
                "temperature",
                "Temperature",
                "How daring the choice of words is. 0 always takes the most probable word, " +
                    "about 0.7 is lively, above 1.2 it begins to ramble.",
                [0, 2, 0.05],
            ),
            number(
                "top_p",
                "Top P",
                "Keeps the most probable words until their shares add up to this, and drops the long tail " +
                    "of odd ones. 1 keeps all.",
                [0, 1, 0.01],
            ),
            number(
                "min_p",
                "Min P",
                "Drops words less probable than this share of the best one. 0.05 is a good guard at high " +
                    "temperatures; 0 drops none.",
                [0, 1, 0.01],
            ),
            number(
                "max_tokens",
                "Longest answer",
                "The answer is cut off after so many tokens (a token is about three quarters " +
                    "of a word). Empty: as long as the context has room.",
            ),
        ],
    },
    {
        title: "Thinking",
        about: "For models that think before they answer; others ignore these.",
        samplers: [
            {
                name: "reasoning_effort",
                label: "Effort",
                kind: "choice",
                choices: ["none", "minimal", "low", "medium", "high"],
                about: "How long the model should think. It is told to the model's template; none asks it to answer at once.",
            },
            number("reasoning_budget_tokens", "Thinking budget", "The thoughts are ended after so many tokens."),
        ],
    },
    {
        title: "Repetition",
        about: "Keeps the model from saying the same again.",
        samplers: [
            number(
                "repetition_penalty",
                "Repetition penalty",
                "Makes words that have occurred less probable. 1 is off, 1.05 to " +
                    "1.15 is gentle; too much hurts grammar.",
                [1, 2, 0.01],
            ),
            number(
                "penalty_range",
                "Penalty range",
                "How many of the newest tokens the penalties look at; -1 is all of them.",
            ),
            number(
                "repetition_decay",
                "Penalty decay",
                "Over so many older tokens the penalties fade out instead of ending " + "suddenly.",
            ),
            number(
                "frequency_penalty",
                "Frequency penalty",
                "Taken off for every time that a word has occurred: the more often, " + "the less it comes again.",
                [-2, 2, 0.05],
            ),
            number(
                "presence_penalty",
                "Presence penalty",
                "Taken off once if a word has occurred at all: leads to new topics.",
                [-2, 2, 0.05],
            ),
            number(
                "dry_multiplier",
                "DRY strength",
                "Don't Repeat Yourself: punishes going on with a phrase that has been said " +
                    "before, the longer the harder. 0 is off, 0.8 is usual.",
                [0, 2, 0.05],
            ),
            number(
                "dry_base",
                "DRY growth",
                "By how much the punishment grows with each further token of the phrase.",
                [1, 3, 0.05],
            ),
            number("dry_allowed_length", "DRY free length", "Phrases up to so many tokens may be repeated freely."),
            number(
                "dry_range",
                "DRY range",
                "How many of the newest tokens are searched for phrases; 0 is all of them.",
            ),
            lines(
                "dry_sequence_breakers",
                "DRY breakers",
                "Texts at which a phrase ends, one to a line: names and marks that " + "must be free to come again.",
            ),
            number(
                "loop_detect_window",
                "Loop guard",
                "Ends the answer when its newest tokens, so many, only repeat one piece. " + "0 is off.",
            ),
        ],
    },
    {
        title: "Cutting the tail",
        about: "Other ways to leave improbable words out.",
        samplers: [
            number("top_k", "Top K", "Keeps this many of the most probable words; 0 keeps all.", [0, 200, 1]),
            number(
                "typical",
                "Typical P",
                "Keeps words about as surprising as the model expects to be: drops the odd ones and " +
                    "the all too obvious. 1 is off.",
                [0.05, 1, 0.01],
            ),
            number(
                "tfs",
                "Tail free",
                "Finds where the curve of probabilities flattens out, and cuts there. 1 is off.",
                [0, 1, 0.01],
            ),
            number(
                "top_a",
                "Top A",
                "Drops words less probable than this times the square of the best one's probability: strict " +
                    "when the model is sure, lenient when it is not. 0 is off.",
                [0, 1, 0.01],
            ),
            number(
                "top_n_sigma",
                "Top n sigma",
                "Keeps words whose raw score is within so many standard deviations of the best. " + "-1 is off.",
                [-1, 5, 0.1],
            ),
            number(
                "xtc_probability",
                "XTC chance",
                "Exclude Top Choices: how often the most obvious words are left out, for less " +
                    "worn prose. 0 is off.",
                [0, 1, 0.05],
            ),
            number(
                "xtc_threshold",
                "XTC threshold",
                "Words count as obvious from this probability on; the least of them stays.",
                [0, 0.5, 0.01],
            ),
        ],
    },
    {
        title: "Shape of the distribution",
        about: "Finer ways to heat and cool it.",
        samplers: [
            toggle(
                "temperature_last",
                "Temperature last",
                "Heats after the tail has been cut instead of before, so that high " +
                    "temperatures do not bring odd words back.",
            ),
            number(
                "min_temp",
                "Dynamic: lowest",
                "With dynamic temperature: used where the model is sure.",
                [0, 3, 0.05],
            ),
            number(
                "max_temp",
                "Dynamic: highest",
                "With dynamic temperature: used where many words would do. Other than the lowest " + "switches it on.",
                [0, 3, 0.05],
            ),
            number(
                "temp_exponent",
                "Dynamic: curve",
                "How quickly it goes from lowest to highest as the model becomes unsure.",
                [0.1, 5, 0.1],
            ),
            number(
                "dynatemp_range",
                "Dynamic: range",
                "Another way to say it: the temperature above, plus and minus this.",
                [0, 2, 0.05],
            ),
            number(
                "smoothing_factor",
                "Smoothing",
                "Bends the curve so that the best few words come closer to each other and the " +
                    "rest falls away. 0 is off.",
                [0, 5, 0.05],
            ),
            number("smoothing_curve", "Smoothing curve", "How steeply the rest falls away.", [0, 5, 0.05]),
            number(
                "skew",
                "Skew",
                "Leans the draw itself: above 0 to improbable words, below 0 to probable ones.",
                [-5, 5, 0.1],
            ),
            number(
                "mirostat_mode",
                "Mirostat",
                "2 steers the surprise of the text to the target below, instead of the cuts above; " + "0 is off.",
                [0, 2, 2],
            ),
            number(
                "mirostat_tau",
                "Mirostat target",
                "The surprise to keep, in bits: lower is more predictable.",
                [0, 10, 0.1],
            ),
            number("mirostat_eta", "Mirostat pace", "How quickly it corrects itself.", [0, 1, 0.01]),
            number(
                "adaptive_target",
                "Adaptive target",
                "Steers to words of about this probability; below 0 is off.",
                [-1, 1, 0.01],
            ),
            number("adaptive_decay", "Adaptive memory", "How long the past counts while steering.", [0, 1, 0.01]),
            number(
                "cfg_scale",
                "Guidance",
                "Pushes the answer away from what the negative prompt would give. 1 is off.",
                [0, 5, 0.1],
            ),
            {
                name: "negative_prompt",
                label: "Negative prompt",
                kind: "text",
                about: "What guidance leads away from.",
            },
        ],
    },
    {
        title: "Where it ends, what it must not say",
        about: "",
        samplers: [
            lines("stop", "Stop texts", "The answer ends where one of these would begin, one to a line."),
            lines(
                "banned_strings",
                "Banned texts",
                "These must not appear, one to a line: the model goes back and says it " + "otherwise.",
            ),
            number("min_tokens", "Shortest answer", "The answer does not end before so many tokens."),
            toggle(
                "ban_eos_token",
                "Never end by itself",
                "Goes on until the longest answer is reached or you stop it.",
            ),
            toggle(
                "skip_special_tokens",
                "Hide special tokens",
                "Marks such as the end of a turn are left out of the text.",
            ),
        ],
    },
    {
        title: "For the curious",
        about: "",
        samplers: [
            number(
                "seed",
                "Seed",
                "The same seed, settings and messages give the same answer. Empty: another one each time.",
            ),
            toggle(
                "token_healing",
                "Token healing",
                "The last token of the prompt may be completed instead of taken as it stands.",
            ),
            toggle("cache_prompt", "Use the cache", "Reuses what the server has already read of this conversation."),
            toggle(
                "speculative_ngram",
                "Draft from the text",
                "Guesses ahead from what has been said; the answer is the same, " +
                    "only faster where the text repeats itself.",
            ),
        ],
    },
];

// Numbers and switches that a client's program may want, but nobody who chats.
export const NOT_SHOWN = [
    "include_stop_str_in_output",
    "add_bos_token",
    "timings_per_token",
    "return_progress",
    "return_token_ids",
    "post_sampling_probs",
    "timeout",
    "priority",
    "max_completion_tokens",
    "n",
    "top_logprobs",
    "stream",
    "parallel_tool_calls",
    "enable_thinking",
    "add_generation_prompt",
    "continue_final_message",
];
