/** Sessions of clients with the strict fake vendors, recorded and then replayed. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { TapeSettings } from '../../src/tape/settings.ts'
import { Tapes } from '../../src/tape/tapes.ts'
import { collect } from '../conversations/collect.ts'
import type { Conversation, Reply } from '../conversations/conversation.ts'
import { FakeVendors } from '../conversations/fake-vendors.ts'
import { clientOf, worldOf } from '../conversations/in-process.ts'
import type { ScriptedCall, StillWorld } from '../support/still-world.ts'
import { stillWorld } from '../support/still-world.ts'

/** A folder that is removed after the test. */
export const folderFor = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'tapes-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export const settingsOf = (folder: string, more: Partial<TapeSettings> = {}): TapeSettings => ({
  mode: 'strict',
  folder,
  name: 'main',
  pace: 0,
  normalise: [],
  match: 'request',
  keepsFailures: false,
  ...more,
})

/** Tapes that report their problems into a list. */
export const tapesIn = (
  settings: TapeSettings,
  world: StillWorld,
  secrets: readonly string[] = [],
): { readonly tapes: Tapes; readonly reports: string[] } => {
  const reports: string[] = []
  const report = ({ message }: { readonly message: string }) => void reports.push(message)
  return { tapes: new Tapes({ settings, live: world.dial, world, secrets: () => secrets, report }), reports }
}

/** A world in which each call fails the test. */
export const closedWorld = (): StillWorld =>
  stillWorld(({ url }: ScriptedCall) => assert.fail(`a connection to ${url} was opened`))

export type PlayedTurn = { readonly body: JsonObject; readonly reply: Reply; readonly whole: JsonObject | null }

type Edit = (body: JsonObject) => JsonObject
type Playing = { readonly world: StillWorld; readonly fakeVendors: FakeVendors; readonly edit?: Edit | undefined }

/** Runs all turns of a client; each sends back what it has received. */
export const playTurns = async (
  conversation: Conversation,
  tape: Tapes,
  { world, fakeVendors, edit = (body) => body }: Playing,
): Promise<readonly PlayedTurn[]> => {
  const { client: kind, scenario, stream, outage, returns } = conversation
  const ask = clientOf({ conversation, fakeVendors, world, tape })
  const client = kind.begin(scenario.features)
  const turns: PlayedTurn[] = []
  for (const [at, { input, answer }] of scenario.turns.entries()) {
    const isDown = at === 1 || (at === 2 && !returns)
    const model = isDown && outage === 'route' ? 'second' : 'first'
    const body = edit({ ...client.ask(input), ...(stream && { stream }), model })
    fakeVendors.begin(answer, isDown)
    const reply = await ask(body)
    const whole = reply.status === 200 ? wholeOf(conversation, reply.text) : null
    turns.push({ body, reply, whole })
    if (!whole) return turns
    client.take(whole)
  }
  return turns
}

/** The same with the vendors, while the tape records. */
export const recordSession = async (conversation: Conversation, settings: TapeSettings, edit?: Edit) => {
  const fakeVendors = new FakeVendors(conversation)
  const world = worldOf(fakeVendors)
  const { tapes, reports } = tapesIn({ ...settings, mode: 'record' }, world)
  return { turns: await playTurns(conversation, tapes, { world, fakeVendors, edit }), reports }
}

/** The same from the tape alone. */
export const replaySession = async (conversation: Conversation, settings: TapeSettings, edit?: Edit) => {
  const world = closedWorld()
  const { tapes, reports } = tapesIn(settings, world)
  const fakeVendors = new FakeVendors(conversation)
  return { turns: await playTurns(conversation, tapes, { world, fakeVendors, edit }), reports }
}

const wholeOf = ({ stream, client }: Conversation, body: string): JsonObject | null => {
  if (stream) return collect(client.style, body)
  const whole: unknown = JSON.parse(body)
  return isObject(whole) ? whole : null
}
