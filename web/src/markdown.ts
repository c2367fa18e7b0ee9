// markdown.ts — a model's text as elements. The only place where text becomes HTML: markdown-it is told to take no HTML
// from its input, and what it makes passes DOMPurify with a short list of what may be in it. No images are loaded: they
// would tell other servers what is being read; their text and address are shown as a link.
import DOMPurify from "dompurify";
import MarkdownIt, { type Rule, type Token } from "markdown-it";
import { colour } from "./languages";

const md = new MarkdownIt({ html: false, linkify: true, breaks: false });
const escape = (text: string): string => md.utils.escapeHtml(text);

const CLEAN = {
    ALLOWED_TAGS: [
        "p",
        "br",
        "hr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "strong",
        "em",
        "s",
        "a",
        "ul",
        "ol",
        "li",
        "blockquote",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "div",
        "span",
        "pre",
        "code",
        "button",
    ],
    ALLOWED_ATTR: [
        "href",
        "title",
        "class",
        "start",
        "target",
        "rel",
        "type",
        "tabindex",
        "data-copy",
        "role",
        "aria-label",
    ],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ADD_URI_SAFE_ATTR: ["role", "aria-label", "data-copy", "tabindex", "type", "target", "rel"],
    RETURN_DOM_FRAGMENT: true,
};

function codeBlock(code: string, language: string): string {
    const coloured = colour(code, language.toLowerCase());
    const name = escape(language.slice(0, 40));
    return (
        '<div class="code"><div class="code-bar"><span class="code-name">' +
        name +
        "</span>" +
        '<button type="button" data-copy="code" class="small">Copy</button></div>' +
        '<pre tabindex="0" role="region" aria-label="Code' +
        (name ? ": " + name : "") +
        '"><code>' +
        (coloured ?? escape(code)) +
        "</code></pre></div>\n"
    );
}

const fence: Rule = (tokens, i) => codeBlock(tokens[i]!.content, tokens[i]!.info.trim().split(/[\s{]/)[0]!);
const indented: Rule = (tokens, i) => codeBlock(tokens[i]!.content, "");

const link: Rule = (tokens, i, options, env, self) => {
    tokens[i]!.attrSet("target", "_blank");
    tokens[i]!.attrSet("rel", "noopener noreferrer");
    return self.renderToken(tokens, i, options);
};

const image: Rule = (tokens, i, options, env, self) => {
    const token = tokens[i]!,
        words = self.renderInlineAsText(token.children ?? [], options, env) || "image";
    return (
        '<a class="image-link" target="_blank" rel="noopener noreferrer" href="' +
        escape(token.attrGet("src") ?? "") +
        '">' +
        escape(words) +
        "</a>"
    );
};

// Columns come with a style attribute, which the page's policy forbids; a class does the same.
const cell: Rule = (tokens, i, options, env, self) => {
    const token: Token = tokens[i]!,
        side = /text-align:(right|center)/.exec(token.attrGet("style") ?? "");
    token.attrs = side ? [["class", side[1]!]] : null;
    return self.renderToken(tokens, i, options);
};

Object.assign(md.renderer.rules, {
    fence,
    code_block: indented,
    link_open: link,
    image,
    th_open: cell,
    td_open: cell,
    table_open: () => '<div class="table" tabindex="0" role="region" aria-label="Table"><table>\n',
    table_close: () => "</table></div>\n",
});

export function renderMarkdown(text: string): DocumentFragment {
    return DOMPurify.sanitize(md.renderer.render(md.parse(text, {}), md.options, {}), CLEAN);
}

// Where the last block of a text begins: all before it is finished and will not change when more text comes. 0 where
// there is only one block.
export function lastBlock(text: string): number {
    let start = 0;
    for (const token of md.parse(text, {}))
        if (token.level === 0 && token.map && token.nesting >= 0) start = token.map[0];
    let at = 0;
    for (; start > 0; start--) at = text.indexOf("\n", at) + 1;
    return at;
}
