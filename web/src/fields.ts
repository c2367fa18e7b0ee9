// fields.ts — names, ranges and standard values of all settings, out of the server's own table (/openapi.json): the page
// has no second one that could say something else.
import { getJson } from "./api";

export interface Field {
    type: string;
    lowest: number | null;
    highest: number | null;
    standard: number | null;
    isBuilt: boolean; // false: known to the server, but without effect so far
}

interface Property {
    type?: string;
    minimum?: number;
    maximum?: number;
    default?: number;
    "x-unsupported"?: boolean;
}
interface Description {
    components?: { schemas?: { ChatRequest?: { properties?: Record<string, Property> } } };
}

export function fieldsOf(description: Description): Map<string, Field> {
    const properties = description.components?.schemas?.ChatRequest?.properties ?? {};
    return new Map(
        Object.entries(properties).map(([name, p]) => {
            return [
                name,
                {
                    type: p.type ?? "",
                    lowest: p.minimum ?? null,
                    highest: p.maximum ?? null,
                    standard: p.default ?? null,
                    isBuilt: !p["x-unsupported"],
                },
            ];
        }),
    );
}

let known: Promise<Map<string, Field>> | null = null;

export function loadFields(): Promise<Map<string, Field>> {
    known ??= getJson<Description>("/openapi.json").then(fieldsOf);
    known.catch(() => (known = null));
    return known;
}
