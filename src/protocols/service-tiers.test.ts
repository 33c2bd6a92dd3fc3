/** The service tier in answers of each client format. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../test/support/builders.ts'
import { type ChatEvent, fold } from '../core/chat.ts'
import { object } from '../core/json.ts'
import { protocols, type sharedProtocols } from './index.ts'

const events = (serviceTier?: string): readonly ChatEvent[] => [
  { type: 'start', id: 'x', model: 'm' },
  { type: 'open', block: { type: 'text' } },
  { type: 'delta', text: 'Hi' },
  { type: 'close' },
  { type: 'finish', finish: { kind: 'stop', raw: null } },
  { type: 'usage', usage: { input: 1, output: 1, ...(serviceTier && { serviceTier }) } },
]

/** What the client asked, the tier of the upstream, and the tiers in chat, responses and messages. */
const CASES = [
  [undefined, undefined, undefined, 'default', undefined],
  ['priority', undefined, undefined, 'priority', undefined],
  ['auto', undefined, undefined, 'default', undefined],
  ['priority', 'flex', 'flex', 'flex', undefined],
  ['auto', 'default', 'default', 'default', 'standard'],
  [undefined, 'standard', 'default', 'default', 'standard'],
  [undefined, 'priority', 'priority', 'priority', 'priority'],
  [undefined, 'on_demand', 'default', 'default', 'standard'],
  [undefined, 'batch', undefined, 'default', 'batch'],
  ['invented', 'unheard_of', undefined, 'default', undefined],
] as const

for (const [asked, used, chat, responses, messages] of CASES)
  test(`service tier: ${asked ?? 'none'} asked, ${used ?? 'unknown'} used`, () => {
    const streamUsage = { value: true, at: 'stream_options.include_usage' }
    const base = answerContext()
    const context = {
      ...base,
      body: asked === undefined ? {} : { service_tier: asked },
      request: { ...base.request, settings: { streamUsage } },
    }
    const answer = fold(events(used))
    const wire = (name: keyof typeof sharedProtocols) => {
      const writer = protocols[name].encodeStream(context)
      return [...events(used).flatMap((event) => [...writer.push({ events: [event] })]), ...writer.end()].join('')
    }
    assert.equal(protocols['openai-chat'].encodeAnswer(answer, context).service_tier, chat)
    assert.equal(wire('openai-chat').includes(`"service_tier":"${chat}"`), chat !== undefined)
    assert.equal(protocols['openai-responses'].encodeAnswer(answer, context).service_tier, responses)
    assert.match(wire('openai-responses'), new RegExp(`response.completed.*"service_tier":"${responses}"`))
    const { usage } = protocols['anthropic-messages'].encodeAnswer(answer, context)
    assert.equal(object(usage)?.service_tier, messages)
    assert.equal(wire('anthropic-messages').includes(`"service_tier":"${messages}"`), messages !== undefined)
  })
