/** Responses in progress in the file: what other processes ask of those that run them, and events for those who follow. */
import type { DatabaseSync } from 'node:sqlite'
import type { ResponseName, RunEvents, RunNews, RunRequest } from '../../core/stored-response.ts'
import type { AddedEvents, EventsQuery } from './store-queries.ts'

/** `first`: the index of the first event. */
export const RUNS = `
  CREATE TABLE IF NOT EXISTS event (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    first INTEGER NOT NULL,
    lines TEXT NOT NULL,
    PRIMARY KEY (owner, id, first)
  );
  CREATE TRIGGER IF NOT EXISTS response_ended AFTER DELETE ON response
    BEGIN
      DELETE FROM event WHERE owner = OLD.owner AND id = OLD.id;
    END;
`

/** What was asked of a response. */
type RunFlags = { readonly stop: number; readonly follow: number }

const statementsOf = (database: DatabaseSync) => ({
  stop: database.prepare('UPDATE response SET stop = 1 WHERE owner = ? AND id = ? AND worker IS NOT NULL'),
  follow: database.prepare('UPDATE response SET follow = 1 WHERE owner = ? AND id = ? AND worker IS NOT NULL'),
  asked: database.prepare('SELECT stop, follow FROM response WHERE owner = ? AND id = ? AND worker = ?'),
  keep: database.prepare('UPDATE response SET stop = ?, follow = ? WHERE owner = ? AND id = ?'),
  running: database.prepare('SELECT 1 FROM response WHERE owner = ? AND id = ? AND worker IS NOT NULL'),
  events: database.prepare('SELECT lines FROM event WHERE owner = ? AND id = ? AND first >= ? ORDER BY first'),
  add: database.prepare('INSERT OR IGNORE INTO event (owner, id, first, lines) VALUES (?, ?, ?, ?)'),
})

export class RunTable {
  readonly #statements: ReturnType<typeof statementsOf>
  readonly #worker: string

  constructor(database: DatabaseSync, worker: string) {
    this.#statements = statementsOf(database)
    this.#worker = worker
  }

  /** Returns whether a process runs it. Needs a transaction. */
  ask({ id, owner }: ResponseName, asked: RunRequest): boolean {
    return this.#statements[asked].run(owner, id).changes > 0
  }

  /** Null: this process does not run it. */
  asked({ id, owner }: ResponseName): RunFlags | null {
    const row = this.#statements.asked.get(owner, id, this.#worker)
    return row ? { stop: Number(row.stop), follow: Number(row.follow) } : null
  }

  /** The response is stored in its next state: what was asked stays so. */
  keep({ id, owner }: ResponseName, { stop, follow }: RunFlags): void {
    this.#statements.keep.run(stop, follow, owner, id)
  }

  /** What other processes ask of these responses. */
  news(running: readonly ResponseName[]): RunNews {
    const found = running.map((run) => ({ run, asked: this.asked(run) }))
    return {
      stop: found.filter(({ asked }) => asked?.stop !== 0).map(({ run }) => run),
      follow: found.filter(({ asked }) => asked?.follow === 1).map(({ run }) => run),
    }
  }

  events({ id, owner, from }: EventsQuery): RunEvents {
    const isRunning = this.#statements.running.get(owner, id) !== undefined
    const rows = isRunning ? this.#statements.events.all(owner, id, from) : []
    return { isRunning, lines: rows.flatMap(({ lines }) => String(lines).split('\n')) }
  }

  /** Needs a transaction. */
  addEvents({ id, owner, from, lines }: AddedEvents): void {
    if (this.asked({ id, owner })) this.#statements.add.run(owner, id, from, lines)
  }
}
