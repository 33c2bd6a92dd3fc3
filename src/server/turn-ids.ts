/** The IDs of the turns of a WebSocket connection: that of its upgrade, and letters that count the turns. */
export class TurnIds {
  readonly #upgrade: string
  #turns = 0

  constructor(upgrade: string) {
    this.#upgrade = upgrade
  }

  /** Begins a turn; returns its ID. */
  next(): string {
    this.#turns++
    return this.of(this.#upgrade)
  }

  /** The ID of the present turn that is made of another ID. No digits: some clients mistake digits in an ID for an HTTP status. */
  of(id: string): string {
    let letters = ''
    for (let left = this.#turns; left > 0; left = Math.floor((left - 1) / 26))
      letters = String.fromCharCode(97 + ((left - 1) % 26)) + letters
    return `${id}.${letters}`
  }
}
