/** The course of the scenario: load all the time, and one fault after the other. */
import { Client, type Exchange, type Outcome, RATE, startLoad } from './client.ts'
import type { Fault, Stage } from './faults.ts'
import { type FleetOptions, startFleet, until } from './fleet.ts'
import { budgetNow, storedAttempts } from './ledger.ts'
import type { Served } from './provider.ts'

/** The time of a fault and of the recovery from it. Each spends a budget of its own: `hard0`, `hard1` and so on. */
export type Part = {
  readonly name: string
  readonly key: string
  /** ms of the clock of the process. */
  readonly begun: number
  readonly ended: number
}

/** Everything that is known after it has ended. */
export type Played = {
  readonly parts: readonly Part[]
  readonly exchanges: readonly Exchange[]
  readonly outcomes: readonly Outcome[]
  readonly served: Served
  readonly takenOut: string
  /** Attempts in the ledger by the name of the request. */
  readonly stored: ReadonlyMap<string, number>
  readonly strict: { readonly spent: number; readonly reserved: number }
} & Pick<Stage, 'exits' | 'schemas' | 'withNewKeys' | 'startedWithout'>

export type Course = FleetOptions & { readonly faults: readonly Fault[]; readonly away: number }

const total = (counts: Iterable<number>): number => [...counts].reduce((sum, count) => sum + count, 0)

export const play = async ({ faults, away, ...options }: Course): Promise<Played> => {
  const fleet = await startFleet(options)
  const client = new Client(fleet.url)
  const parts: Part[] = []
  let key = ''
  const load = startLoad(client, () => key)
  const stage: Stage = {
    fleet,
    client,
    away,
    pass: (seconds) => load.pass(seconds * RATE),
    exits: [],
    schemas: [],
    withNewKeys: [],
    startedWithout: [],
  }
  try {
    for (const [at, { name, loses, run }] of faults.entries()) {
      key = `hard${at}`
      const begun = performance.now()
      client.lose(loses ?? [])
      await run(stage)
      await fleet.settled()
      client.lose([])
      await stage.pass(1)
      parts.push({ name, key, begun, ended: performance.now() })
    }
    await load.stop()
    const served = await fleet.provider.served()
    const [gateway = fleet] = fleet.gateways
    let stored: ReadonlyMap<string, number> = new Map()
    await until('the ledger has a row for each call', async () => {
      stored = await storedAttempts(gateway)
      return total(stored.values()) >= total(Object.values(served.calls))
      // The check that compares the two names the rows that are missing.
    }).catch(() => {})
    const strict = await budgetNow(gateway, 'strict')
    const { exchanges, outcomes } = client
    const { exits, schemas, withNewKeys, startedWithout } = stage
    return {
      parts,
      exchanges,
      outcomes,
      served,
      takenOut: fleet.takenOut(),
      stored,
      strict,
      exits,
      schemas,
      withNewKeys,
      startedWithout,
    }
  } finally {
    fleet.redis.resume()
    fleet.primary.resume()
    await load.stop()
    client.close()
    await fleet.stop()
  }
}
