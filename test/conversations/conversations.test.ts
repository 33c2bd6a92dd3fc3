/**
 * Conversations of three turns whose vendor changes, over all ordered pairs of strict fake vendors: the first vendor
 * answers the first turn, is down, rate-limited or no longer routed to in the second, and returns in the third or does
 * not. Each client sends back what the gateway returned to it. A lenient vendor is the last target of every route.
 *
 * `npm run test:long` and `npm run conformance` run all of them; otherwise one in PART runs, with every client, scenario
 * and outage, streamed and not.
 *
 * known.json lists what does not hold yet. It is exact: a problem that is not listed fails, and so, in a run of all, does a
 * listed one that no longer occurs. `HEADGATE_LONG=1 UPDATE_KNOWN=1 node --test test/conversations/conversations.test.ts`
 * writes it, and `biome check --write` formats it.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { Tally } from '../conformance/tally.ts'
import { isLong } from '../support/lane.ts'
import { CLIENTS, type ClientKind } from './clients.ts'
import { type Conversation, OUTAGES, pairs, type Turn } from './conversation.ts'
import { converseInProcess } from './in-process.ts'
import { SCENARIOS } from './scenarios.ts'

const FILE = new URL('known.json', import.meta.url)

/** Problems by client, as `vendor: rule: effect`. */
type Known = { [client: string]: readonly string[] }
// Written below.
const known = JSON.parse(readFileSync(FILE, 'utf8')) as Known

/** Prime, so that the part meets every combination of what alternates. */
const PART = 13

// A part has no table on the page.
const board = new Tally(isLong ? 'conversations' : undefined)
after(() => {
  board.print()
  if (process.env.UPDATE_KNOWN) writeFileSync(FILE, `${JSON.stringify(known, null, 2)}\n`)
})

/**
 * All conversations of a client. How the first vendor fails rotates, so that every pair meets each way; of the two
 * conversations of a pair about the same, one is streamed.
 */
function* conversationsOf(client: ClientKind): Generator<Conversation> {
  let count = CLIENTS.indexOf(client)
  for (const [number, scenario] of SCENARIOS.entries())
    for (const [at, [first, second]] of pairs().entries())
      for (const returns of [true, false]) {
        const outage = OUTAGES[(at + number) % OUTAGES.length] ?? 'down'
        const stream = (at + number) % 2 === (returns ? 0 : 1)
        if (isLong || count++ % PART === 0) yield { client, scenario, first, second, returns, outage, stream }
      }
}

/** Counts a turn under its vendor and client. */
const count = (client: ClientKind, { vendor, outcome }: Turn): void => {
  board.checkEach(
    `${vendor.name} ← ${client.name}`,
    [outcome],
    (one) => one,
    (one) => (one === 'answered' ? undefined : one),
  )
}

for (const client of CLIENTS)
  test(`conversations: ${client.name}`, async () => {
    const found = new Map<string, string>()
    for (const conversation of conversationsOf(client)) {
      const turns = await converseInProcess(conversation)
      const { scenario, first, second, returns, outage, stream } = conversation
      for (const [at, turn] of turns.entries()) {
        if (at > 0) count(client, turn)
        const where = `${scenario.name}, ${first.name} → ${second.name}, ${outage}, ${returns ? 'returns' : 'stays away'}, ${stream ? 'streamed' : 'whole'}, turn ${at + 1}`
        for (const problem of turn.problems) found.set(problem, where)
        if (turn.outcome === 'not tried') found.set(`${turn.vendor.name}: is not tried`, where)
      }
    }
    if (process.env.UPDATE_KNOWN) known[client.name] = [...found.keys()].sort()
    const listed = new Set(known[client.name])
    assert.deepEqual(
      {
        'not listed in known.json': [...found].filter(([problem]) => !listed.has(problem)),
        'listed, but no longer occurs': isLong ? [...listed].filter((problem) => !found.has(problem)) : [],
      },
      { 'not listed in known.json': [], 'listed, but no longer occurs': [] },
    )
  })
