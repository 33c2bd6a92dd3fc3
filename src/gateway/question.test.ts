import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../test/support/settings.ts'
import { openaiChat } from '../protocols/openai-chat/index.ts'
import { ask, askInTurns } from './question.ts'

const user = { role: 'user', content: 'x' }
const large = 'x'.repeat(300_000)
const bodies: readonly (readonly [name: string, source: string, pauses: number])[] = [
  ['a good one', JSON.stringify({ model: 'm', messages: [{ role: 'user', content: large }] }), 4],
  ['one with long numbers', `{"model":"m","seed":12345678901234567890,"messages":[{"role":"user","content":"x"}]}`, 4],
  ['no JSON', `{"model":"m","messages":["${large}`, 1],
  ['too many messages', JSON.stringify({ model: 'm', messages: Array(10_001).fill(user) }), 2],
  ['a member given twice', `{"model":"m","model":"n","messages":[],"user":"${large}"}`, 2],
  ['a member of the wrong type', JSON.stringify({ model: 'm', messages: large }), 3],
]
for (const [name, source, pauses] of bodies)
  test(`question: read in turns of the event loop it is the same: ${name}`, async () => {
    const headers = () => undefined
    let paused = 0
    const pause = async () => void paused++
    const { limit } = defaultSettings
    const inTurns = await askInTurns(openaiChat, { body: source, headers }, limit, pause)
    assert.deepEqual(inTurns, ask(openaiChat, source, headers, limit))
    assert.equal(paused, pauses)
  })
