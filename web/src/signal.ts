// signal.ts — tells whoever listens that something has happened.

export class Signal<T> {
    private readonly listeners: ((value: T) => void)[] = [];

    on(listener: (value: T) => void): void {
        this.listeners.push(listener);
    }

    tell(value: T): void {
        for (const listener of this.listeners) listener(value);
    }
}
