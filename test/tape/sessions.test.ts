/** Sessions of all clients, recorded with the strict fake vendors and replayed without a connection. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../../src/core/json.ts'
import { TapeFolder } from '../../src/tape/tape-folder.ts'
import { CLIENTS } from '../conversations/clients.ts'
import { type Conversation, OUTAGES, pairs } from '../conversations/conversation.ts'
import { SCENARIOS } from '../conversations/scenarios.ts'
import { VENDORS } from '../conversations/vendors.ts'
import { folderFor, recordSession, replaySession, settingsOf } from './session.ts'

/** What the gateway itself writes into translated answers: IDs, times, and the model and the provider of the plan. */
const withoutOwn = (text: string): string =>
  text
    .replace(/\b(?:resp|msg|rs|fc|call|chatcmpl|toolu|item|ws|ctc)[-_][\w-]{8,}/g, 'ID')
    .replace(/"(created|created_at|completed_at)":\d+/g, '"$1":0')
    .replace(/"model":"[^"]*"/g, '"model":""')
    .replace(/hg:[\w-]*(?:\/[\w-]*)?/g, 'hg:')

/** Sessions of each client; of all there are more than 100. */
const EACH = 9

const conversationsOf = (client: (typeof CLIENTS)[number], number: number): readonly Conversation[] =>
  Array.from({ length: EACH }, (_, at) => {
    const all = pairs()
    const [first, second] = all[(at * 7 + number * 5) % all.length] ?? assert.fail()
    const scenario = SCENARIOS[(at + number) % SCENARIOS.length] ?? assert.fail()
    const outage = OUTAGES[at % OUTAGES.length] ?? 'down'
    // Streams of Bedrock are binary, and are not recorded.
    const isBinary = [first, second].some(({ name }) => name === 'bedrock')
    return { client, scenario, first, second, returns: at % 2 === 0, outage, stream: at % 3 !== 0 && !isBinary }
  })

for (const [number, client] of CLIENTS.entries())
  test(`tape: sessions of ${client.name} are replayed with equal answers`, async (t) => {
    let same = 0
    for (const [at, conversation] of conversationsOf(client, number).entries()) {
      const settings = settingsOf(folderFor(t), { name: `session-${at}` })
      const { turns: recorded, reports } = await recordSession(conversation, settings)
      assert.deepEqual(reports, [])
      const tape = new TapeFolder(settings.folder).open(settings.name)
      assert.deepEqual(tape.problems, [])
      const complete = recorded.filter(({ whole }) => whole !== null)
      const { turns: replayed, reports: misses } = await replaySession(conversation, settings)
      assert.deepEqual(misses.slice(0, complete.length === recorded.length ? misses.length : 0), [])
      for (const [turn, { reply }] of complete.entries()) {
        const again = replayed[turn]?.reply
        assert.equal(again?.status, 200, `${conversation.scenario.name} turn ${turn + 1}: ${again?.text}`)
        const where = `${conversation.scenario.name} turn ${turn + 1}`
        const wire = tape.exchanges[turn]?.target.protocol
        assert.equal(withoutOwn(again.text), withoutOwn(reply.text), where)
        // Passed on unchanged. Responses are stored, so they have IDs of the gateway.
        if (wire === client.style && wire !== 'openai-responses') assert.equal(again.text, reply.text, where)
        same++
      }
    }
    assert.ok(same >= EACH * 2, `${same} turns`)
  })

/** A scenario without settings that only one format has. */
const plainScenario = () => SCENARIOS.find(({ name }) => name === 'a call, then text') ?? assert.fail()

/** Formats state how much a model thinks in ways that mean different things. */
const withoutEffort = ({ reasoning: _, reasoning_effort, thinking, ...body }: JsonObject): JsonObject => body

test('tape: a session in one style answers clients of the other styles', async (t) => {
  const [vendor] = VENDORS
  const [first, second] = [vendor, VENDORS[1]]
  assert.ok(first && second)
  const conversation = (client: (typeof CLIENTS)[number], stream: boolean): Conversation => ({
    ...{ client, scenario: plainScenario(), first, second, returns: true, outage: 'route', stream },
  })
  for (const recorder of CLIENTS) {
    const settings = settingsOf(folderFor(t))
    const { turns } = await recordSession(conversation(recorder, true), settings, withoutEffort)
    assert.ok(turns.every(({ whole }) => whole))
    for (const client of CLIENTS)
      for (const stream of [true, false]) {
        const { turns: again, reports } = await replaySession(conversation(client, stream), settings, withoutEffort)
        assert.deepEqual(reports, [], `${recorder.name} for ${client.name}`)
        for (const [at, { text }] of plainScenario()
          .turns.map(({ answer }) => answer)
          .entries())
          assert.ok(
            JSON.stringify(again[at]?.whole).includes(text ?? ''),
            `${recorder.name} for ${client.name} turn ${at + 1}`,
          )
      }
  }
})

test('tape: a binary stream is not recorded, because it cannot be searched for secrets', async (t) => {
  const first = VENDORS.find(({ name }) => name === 'bedrock') ?? assert.fail()
  const [client = assert.fail(), second = assert.fail()] = [CLIENTS[0], VENDORS[1]]
  const settings = settingsOf(folderFor(t))
  const { turns, reports } = await recordSession(
    { client, scenario: plainScenario(), first, second, returns: true, outage: 'route', stream: true },
    settings,
  )
  assert.ok(turns.every(({ whole }) => whole))
  assert.match(
    reports[0] ?? '',
    /^An answer of .* is not recorded\. It is binary, and cannot be searched for secrets\./,
  )
  const { exchanges } = new TapeFolder(settings.folder).open(settings.name)
  assert.ok(exchanges.every(({ target }) => target.provider !== 'bedrock'))
})
