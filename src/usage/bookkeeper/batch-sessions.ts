/** Adds up what the sessions of complete requests have used, for one transaction. */
import { ENDED_COLUMNS, type SessionRow } from '../columns/usage-schema.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import type { AttemptSums } from './batch-totals.ts'

const of = (name: (typeof ENDED_COLUMNS)[number]): number => ENDED_COLUMNS.indexOf(name)
const SESSION = of('session')
const OUTCOME = of('outcome')
const [RECEIVED, KEY, TEAM, CLIENT] = [of('received'), of('key'), of('team'), of('client')]

type MutableSession = { -readonly [Name in keyof SessionRow]: SessionRow[Name] }

export class BatchSessions {
  #rows = new Map<string, MutableSession>()

  /** Counts a request (`ENDED_COLUMNS`), if it has a session. `name`: that of the session; null: it has none. */
  add(request: RecordValues, sums: AttemptSums, name: string | null): void {
    const id = request[SESSION]
    if (typeof id !== 'string') return
    const received = Number(request[RECEIVED])
    const row = this.#rows.get(id) ?? this.#begun(id, request)
    row.name ??= name
    row.first = Math.min(row.first, received)
    row.last = Math.max(row.last, received)
    row.most_input = Math.max(row.most_input, sums.input)
    row.requests++
    const outcome = request[OUTCOME]
    if (outcome !== 'answered' && outcome !== 'client_gone') row.failed++
    row.attempts += sums.attempts
    row.input += sums.input
    row.output += sums.output
    row.cache_read += sums.cache_read
    row.cache_write += sums.cache_write
    row.cost += sums.cost
  }

  /** In the order of their IDs, so that gateways which add to the same ones do not wait for each other. */
  take(): readonly SessionRow[] {
    const rows = [...this.#rows.values()].sort((one, other) => (one.id < other.id ? -1 : 1))
    this.#rows = new Map()
    return rows
  }

  #begun(id: string, request: RecordValues): MutableSession {
    const received = Number(request[RECEIVED])
    const [key, team, client] = [textOf(request[KEY]), textOf(request[TEAM]), textOf(request[CLIENT])]
    const row = { ...NOTHING, id, key, team, client, first: received, last: received }
    this.#rows.set(id, row)
    return row
  }
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)

const NOTHING = {
  name: null,
  most_input: 0,
  requests: 0,
  failed: 0,
  attempts: 0,
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  cost: 0,
}
