/** A credential. Printing, logging or serializing it gives `[redacted]`; only `reveal` returns the value. */
export class Secret {
  readonly #value: string
  constructor(value: string) {
    this.#value = value
  }
  reveal(): string {
    return this.#value
  }
  /** Whether it is the same credential. */
  equals(other: Secret | undefined): boolean {
    return other !== undefined && this.#value === other.#value
  }
  toString(): string {
    return '[redacted]'
  }
  toJSON(): string {
    return '[redacted]'
  }
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return '[redacted]'
  }
}
