// hosts.ts — stands for the package punycode, of which markdown-it asks two things when it meets a link.
// International names are left as their letters-digits form: a link that looks like another host is shown as it is.

export function toASCII(host: string): string {
    try {
        return new URL("http://" + host).hostname;
    } catch {
        return host;
    }
}

export function toUnicode(host: string): string {
    return host;
}
