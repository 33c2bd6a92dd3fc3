/** The course of the scenario: load all the time, and one fault after the other. */
import { Client, type Exchange, type Outcome, RATE, startLoad } from './client.ts'
import { type Fleet, LIMITS, startFleet, until } from './fleet.ts'
import { budgetNow, storedAttempts } from './ledger.ts'
import type { Served } from './provider.ts'

/** A part of the scenario. Each spends a budget of its own: `hard0`, `hard1` and so on. */
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
  /** Attempts in the ledger by the name of the request. */
  readonly stored: ReadonlyMap<string, number>
  readonly strict: { readonly spent: number; readonly reserved: number }
  /** Exit codes of the gateways that were replaced. */
  readonly exits: readonly (number | null)[]
  /** The statuses of a used-up budget at gateways that have started while Redis did not answer. */
  readonly startedWithout: readonly number[]
}

export type Course = {
  /** Seconds that a store is away. */
  readonly away: number
  /** Program of the gateways that the rolling upgrade replaces. */
  readonly before?: string | undefined
}

type Stage = { readonly fleet: Fleet; readonly client: Client; readonly pass: (seconds: number) => Promise<void> }

/** What a part does to the fleet; afterwards every gateway must be without a problem. */
type Act = (stage: Stage, course: Course) => Promise<void>

const SOFT = 3
const calls = async ({ provider }: Fleet, key: string): Promise<number> => {
  const { calls } = await provider.served()
  return Object.entries(calls).reduce((sum, [name, count]) => sum + (name.startsWith(`${key}-`) ? count : 0), 0)
}

export const play = async (course: Course): Promise<Played> => {
  const fleet = await startFleet(course)
  const client = new Client(fleet.url)
  const parts: Part[] = []
  const exits: (number | null)[] = []
  const startedWithout: number[] = []
  let key = 'hard0'
  const load = startLoad(client, () => key)
  const stage: Stage = { fleet, client, pass: (seconds) => load.pass(seconds * RATE) }
  const part = async (name: string, act: Act) => {
    key = `hard${parts.length}`
    const begun = performance.now()
    await act(stage, course)
    await fleet.settled()
    client.disturb(false)
    await stage.pass(1)
    parts.push({ name, key, begun, ended: performance.now() })
  }
  /** A part in which counters may be out of reach, so that strict budgets refuse. */
  const disturbed = (name: string, act: Act) =>
    part(name, async (...given) => {
      client.disturb(true)
      await act(...given)
    })
  try {
    await part('nothing', async () => {
      await stage.pass(SOFT)
      await until('the ledger has what the first budget has paid for', async () => {
        const stored = await storedAttempts(fleet.gateways[0] ?? fleet)
        const rows = [...stored].reduce((sum, [name, count]) => sum + (name.startsWith('hard0-') ? count : 0), 0)
        return rows >= Math.min(LIMITS.answers, await calls(fleet, 'hard0'))
      })
    })
    await disturbed('Redis is stopped', async () => {
      fleet.redis.signal('SIGSTOP')
      await stage.pass(course.away)
      const pod = await fleet.addPod()
      for (let n = 0; n < 4; n++) {
        const name = `hard0-pod.${n}`
        const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: name }] }
        const { status } = await client.send({ name, key: 'hard0', path: '/v1/chat/completions', body }, pod.url)
        startedWithout.push(status)
      }
      fleet.redis.signal('SIGCONT')
    })
    await disturbed('Redis is emptied', async () => {
      await fleet.redis.command('FLUSHALL')
      await stage.pass(SOFT)
    })
    await part('Postgres is stopped', async () => {
      await fleet.primary.stop()
      await stage.pass(course.away)
      await fleet.primary.start()
    })
    await part('Postgres is frozen', async () => {
      fleet.primary.pause()
      await stage.pass(course.away)
      fleet.primary.resume()
    })
    await disturbed('a gateway is cut off from the stores', async () => {
      const lift = fleet.partition.flatMap((proxy) => [
        proxy.add('up', { kind: 'stop' }),
        proxy.add('down', { kind: 'stop' }),
      ])
      await stage.pass(course.away)
      for (const end of lift) end()
    })
    await part('a gateway is killed', async () => {
      const victim = fleet.gateways[1]
      if (!victim) return
      await client.sparing(() => fleet.kill(victim))
      await stage.pass(SOFT)
      await fleet.revive(victim)
    })
    await part('Postgres fails over', async () => {
      await fleet.primary.stop()
      await stage.pass(1)
      await fleet.standby.promote()
      fleet.moveToStandby()
      await stage.pass(SOFT)
    })
    await part('a rolling upgrade', async () => {
      for (const gateway of fleet.gateways) exits.push(await fleet.restart(gateway))
    })
    await load.stop()
    const served = await fleet.provider.served()
    const [gateway = fleet] = fleet.gateways
    let stored = await storedAttempts(gateway)
    const expected = Object.values(served.calls).reduce((sum, count) => sum + count, 0)
    await until('the ledger has a row for each call', async () => {
      stored = await storedAttempts(gateway)
      return [...stored.values()].reduce((sum, count) => sum + count, 0) >= expected
    }).catch(() => {})
    const strict = await budgetNow(gateway, 'strict')
    const { exchanges, outcomes } = client
    return { parts, exchanges, outcomes, served, stored, strict, exits, startedWithout }
  } finally {
    await load.stop()
    client.close()
    fleet.redis.signal('SIGCONT')
    fleet.primary.resume()
    await fleet.stop()
  }
}
