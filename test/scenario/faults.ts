/** The faults of the scenario, one after the other. Each ends in a state from which the gateways must recover by themselves. */
import type { Client, Lost } from './client.ts'
import { type Fleet, LIMITS, problemsOf, secretOf, until } from './fleet.ts'
import { createKey, storedAttempts } from './ledger.ts'

export type Stage = {
  readonly fleet: Fleet
  readonly client: Client
  /** Seconds that a store is away. */
  readonly away: number
  /** Resolves when the load of so many seconds has begun. */
  pass(seconds: number): Promise<void>
  /** Exit codes of the gateways that were replaced. */
  readonly exits: (number | null)[]
  /** The versions of the schemas before gateways were replaced, and with the first one of the next version. */
  readonly schemas: Readonly<Record<string, number>>[]
  /** The statuses of requests with a key that has just been created, at each gateway in turn. */
  readonly withNewKeys: number[]
  /** The statuses of a used-up budget at a gateway that has started while Redis did not answer. */
  readonly startedWithout: number[]
}

export type Fault = {
  readonly name: string
  /** Stores that gateways may not reach. */
  readonly loses?: readonly Lost[]
  readonly run: (stage: Stage) => Promise<void>
}

const bodyOf = (name: string) => ({ model: 'm', max_tokens: 100, messages: [{ role: 'user', content: name }] })

/** Seconds of load after what takes no time. */
const SHORT = 2

/** Without a fault: new keys are used, the first budget is used up, and the ledger knows it. */
const nothing: Fault = {
  name: 'nothing',
  async run({ fleet, client, pass, withNewKeys }) {
    for (let at = 0; at < 3; at++) {
      const secret = await createKey(fleet, `new-${at}`)
      const asked = Array.from({ length: 2 * fleet.gateways.length }, async (_, n) => {
        const name = `new-${at}.${n}`
        const { status } = await client.send({ name, secret, path: '/v1/chat/completions', body: bodyOf(name) })
        return status
      })
      withNewKeys.push(...(await Promise.all(asked)))
    }
    await pass(SHORT)
    await until('the ledger has what the first budget has paid for', async () => {
      const { calls } = await fleet.provider.served()
      const stored = await storedAttempts(fleet.gateways[0] ?? fleet)
      const count = (name: string): number => (name.startsWith('hard0-') ? (stored.get(name) ?? 0) : 0)
      const rows = Object.keys(calls).reduce((sum, name) => sum + count(name), 0)
      return rows > 0 && Object.keys(calls).every((name) => !name.startsWith('hard0-') || count(name) > 0)
    })
  },
}

export const redisStopped: Fault = {
  name: 'Redis does not answer, and a gateway starts meanwhile',
  loses: ['counters'],
  async run({ fleet, client, away, pass, startedWithout }) {
    fleet.redis.pause()
    await pass(away)
    const pod = await fleet.addPod()
    for (let n = 0; n < 2 * LIMITS.answers; n++) {
      const name = `hard0-pod.${n}`
      const ask = { name, secret: secretOf('hard0'), path: '/v1/chat/completions', body: bodyOf(name) }
      const { status } = await client.send(ask, pod.url)
      startedWithout.push(status)
    }
    fleet.redis.resume()
    await until('the gateway that has started without Redis counts with the others', async () => {
      const problems = await problemsOf(pod)
      return problems.length === 0
    })
  },
}

const redisEmptied: Fault = {
  name: 'Redis is emptied',
  loses: ['counters'],
  async run({ fleet, pass }) {
    await fleet.redis.empty()
    await pass(SHORT)
  },
}

const redisKilled: Fault = {
  name: 'Redis is killed',
  loses: ['counters'],
  async run({ fleet, away, pass }) {
    await fleet.redis.kill()
    await pass(away)
    await fleet.redis.start()
  },
}

const masterStopped: Fault = {
  name: 'a master of the cluster does not answer',
  loses: ['counters'],
  async run({ fleet, away, pass }) {
    fleet.redis.pause()
    await pass(away)
    fleet.redis.resume()
  },
}

const postgresStopped: Fault = {
  name: 'Postgres is stopped',
  loses: ['responses'],
  async run({ fleet, away, pass }) {
    await fleet.primary.stop()
    await pass(away)
    await fleet.primary.start()
  },
}

const postgresFrozen: Fault = {
  name: 'Postgres does not answer',
  loses: ['responses'],
  async run({ fleet, away, pass }) {
    fleet.primary.pause()
    await pass(away)
    fleet.primary.resume()
  },
}

const partitioned: Fault = {
  name: 'a gateway is cut off from both stores',
  loses: ['counters', 'responses'],
  async run({ fleet, away, pass }) {
    const lift = fleet.partition.flatMap((proxy) => [
      proxy.add('up', { kind: 'stop' }),
      proxy.add('down', { kind: 'stop' }),
    ])
    await pass(away)
    for (const end of lift) end()
  },
}

const killed: Fault = {
  name: 'a gateway is killed',
  async run({ fleet, client, pass }) {
    const victim = fleet.gateways[1]
    if (!victim) return
    await client.sparing(() => fleet.kill(victim))
    await pass(SHORT)
    await fleet.revive(victim)
  },
}

/** The standby may lack the last transactions: the journals have them. Before it is promoted, it only reads. */
const failedOver: Fault = {
  name: 'Postgres fails over to its standby',
  loses: ['responses'],
  async run({ fleet, pass }) {
    await fleet.primary.stop()
    fleet.moveToStandby()
    await pass(SHORT)
    await fleet.standby.promote()
    await pass(SHORT)
  },
}

/** The first one of the next version migrates the schemas. Until the last is replaced both versions use them; then one goes back. */
export const upgraded: Fault = {
  name: 'all gateways are replaced by a next version, one after the other, and one goes back',
  async run({ fleet, exits, schemas }) {
    schemas.push(await fleet.schemas())
    const [first] = fleet.gateways
    for (const gateway of fleet.gateways) {
      exits.push(await fleet.restart(gateway, 'next'))
      if (gateway === first) schemas.push(await fleet.schemas())
    }
    if (first) exits.push(await fleet.restart(first, 'before'))
  },
}

export const ALL: readonly Fault[] = [
  nothing,
  redisStopped,
  redisEmptied,
  redisKilled,
  postgresStopped,
  postgresFrozen,
  partitioned,
  killed,
  failedOver,
  upgraded,
]
export const OF_CLUSTER: readonly Fault[] = [nothing, redisEmptied, masterStopped]
