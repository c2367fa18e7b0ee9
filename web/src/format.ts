// format.ts — numbers, sizes and times in words.

const whole = new Intl.NumberFormat("en");

export function count(n: number): string {
    return whole.format(Math.round(n));
}

export function plural(n: number, word: string): string {
    return count(n) + " " + word + (n === 1 ? "" : "s");
}

export function rate(n: number): string {
    if (n < 0.005) return "0";
    return n >= 100 ? count(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

export function seconds(s: number): string {
    if (s < 0.0995) return Math.max(1, Math.round(s * 1000)) + " ms";
    if (s < 9.95) return s.toFixed(1) + " s";
    if (s < 90) return Math.round(s) + " s";
    return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
}

export function bytes(n: number): string {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let i = 0;
    for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
    return (i ? n.toFixed(n < 10 ? 1 : 0) : String(n)) + " " + units[i];
}

// The part of the list that a conversation stands in.
export function dayOf(time: number, now: number): string {
    const midnight = new Date(now).setHours(0, 0, 0, 0);
    if (time >= midnight) return "Today";
    if (time >= midnight - 864e5) return "Yesterday";
    if (time >= midnight - 6 * 864e5) return "This week";
    return "Earlier";
}
