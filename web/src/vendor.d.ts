// vendor.d.ts — what the page uses of the three packages that are bundled with it.
declare module "markdown-it" {
    export interface Token {
        type: string;
        tag: string;
        nesting: number;
        level: number;
        content: string;
        info: string;
        map: [number, number] | null;
        attrs: [string, string][] | null;
        children: Token[] | null;
        attrGet(name: string): string | null;
        attrSet(name: string, value: string): void;
    }
    export type Rule = (tokens: Token[], index: number, options: object, env: object, self: Renderer) => string;
    export interface Renderer {
        rules: Record<string, Rule | undefined>;
        render(tokens: Token[], options: object, env: object): string;
        renderToken(tokens: Token[], index: number, options: object): string;
        renderInlineAsText(tokens: Token[], options: object, env: object): string;
    }
    export default class MarkdownIt {
        constructor(options: object);
        options: object;
        renderer: Renderer;
        utils: { escapeHtml(text: string): string };
        parse(text: string, env: object): Token[];
    }
}
declare module "highlight.js/lib/highlight" {
    const hljs: {
        registerLanguage(name: string, language: unknown): void;
        getLanguage(name: string): object | undefined;
        highlight(name: string, text: string, lenient: boolean): { value: string };
    };
    export default hljs;
}
declare module "highlight.js/lib/languages/*" {
    const language: unknown;
    export default language;
}
declare module "dompurify" {
    const purify: { sanitize(html: string, config: object): DocumentFragment };
    export default purify;
}
