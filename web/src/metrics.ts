// metrics.ts — reads the text of /metrics: what the activity view shows of it.

// The sum over all labels of each family without buckets.
export function readMetrics(page: string): Map<string, number> {
    const values = new Map<string, number>();
    for (const line of page.split("\n")) {
        const match = /^([a-z_:][a-z0-9_:]*)(?:\{.*\})? (\S+)$/i.exec(line);
        if (!match || match[1]!.endsWith("_bucket")) continue;
        const value = Number(match[2]);
        if (Number.isFinite(value)) values.set(match[1]!, (values.get(match[1]!) ?? 0) + value);
    }
    return values;
}
