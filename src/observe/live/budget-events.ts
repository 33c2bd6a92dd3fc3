/** Events of budgets whose state has changed. The state is read once a second while a listener wants it. */
import { frameOf, type LiveListener } from './listener.ts'

export class BudgetEvents {
  /** The last state of each budget; null: not read yet. */
  #known: Map<string, string> | null = null
  #isReading = false

  /** The next reading is the first one. */
  forget(): void {
    this.#known = null
  }

  /** Sends the budgets whose state has changed to those that want them. */
  async send(listeners: ReadonlySet<LiveListener>): Promise<void> {
    const wanting = [...listeners].filter(({ topics }) => topics.includes('budgets'))
    const [first] = wanting
    if (!first || this.#isReading) return
    this.#isReading = true
    try {
      const found = await first.budgets()
      const known = this.#known
      this.#known = new Map([...(known ?? []), ...found.map(({ id, data }) => [id, data] as const)])
      if (known === null) return
      for (const { id, teams, data } of found) {
        if (known.get(id) === data) continue
        const event = { id: '', topic: 'budgets', name: 'budget', teams, data } as const
        for (const listener of wanting) listener.push(event, frameOf(event))
      }
      for (const listener of wanting) listener.flush()
    } finally {
      this.#isReading = false
    }
  }
}
