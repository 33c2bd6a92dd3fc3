import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run } from '../../core/stage.ts'
import { sseFrames, writeFrame } from '../framing/sse.ts'
import { BlockOrder } from './block-order.ts'

type Sent = readonly [kind: 'start' | 'delta' | 'stop' | 'end', index: number, text?: string]

const wireOf = (events: readonly Sent[]): string =>
  events
    .map(([kind, index, text = 'text']) => {
      if (kind === 'end') return writeFrame('message_delta', '{"type":"message_delta"}')
      const type = `content_block_${kind}`
      const more = {
        start: { content_block: { type: text } },
        delta: { delta: { type: 'text_delta', text } },
        stop: {},
      }
      return writeFrame(type, JSON.stringify({ type, index, ...more[kind] }))
    })
    .join('')

const passed = (events: readonly Sent[]): { readonly wire: string; readonly changed: boolean } => {
  const order = new BlockOrder()
  let changed = false
  const wire = run(sseFrames(), [wireOf(events)])
    .flatMap((frame) => {
      const replaced = order.replace(frame.event, frame)
      changed ||= replaced !== null
      return replaced ?? [String(frame.raw)]
    })
    .join('')
  return { wire, changed }
}

const cases: readonly (readonly [name: string, sent: readonly Sent[], expected: readonly Sent[]])[] = [
  [
    'in order',
    [
      ['start', 0],
      ['delta', 0],
      ['stop', 0],
      ['start', 1],
      ['stop', 1],
      ['end', 0],
    ],
    [
      ['start', 0],
      ['delta', 0],
      ['stop', 0],
      ['start', 1],
      ['stop', 1],
      ['end', 0],
    ],
  ],
  [
    'ollama/ollama#17101: thinking begins at the number of an open text',
    [
      ['start', 0],
      ['delta', 0, '---'],
      ['start', 0, 'thinking'],
      ['delta', 0, 'hm'],
      ['delta', 0, 'so'],
      ['stop', 0],
      ['end', 0],
    ],
    [
      ['start', 0],
      ['delta', 0, '---'],
      ['stop', 0],
      ['start', 1, 'thinking'],
      ['delta', 1, 'hm'],
      ['delta', 1, 'so'],
      ['stop', 1],
      ['end', 0],
    ],
  ],
  [
    'jundot/omlx#1353: a gap',
    [
      ['start', 0, 'thinking'],
      ['stop', 0],
      ['start', 2, 'tool_use'],
      ['delta', 2, '{}'],
      ['stop', 2],
    ],
    [
      ['start', 0, 'thinking'],
      ['stop', 0],
      ['start', 1, 'tool_use'],
      ['delta', 1, '{}'],
      ['stop', 1],
    ],
  ],
  [
    'anthropics/anthropic-sdk-typescript#879: a number that is used again',
    [
      ['start', 0],
      ['stop', 0],
      ['start', 1],
      ['stop', 1],
      ['start', 1],
      ['delta', 1],
      ['stop', 1],
    ],
    [
      ['start', 0],
      ['stop', 0],
      ['start', 1],
      ['stop', 1],
      ['start', 2],
      ['delta', 2],
      ['stop', 2],
    ],
  ],
  [
    'a number that begins at 1',
    [
      ['start', 1],
      ['delta', 1],
      ['stop', 1],
    ],
    [
      ['start', 0],
      ['delta', 0],
      ['stop', 0],
    ],
  ],
  [
    'a block without its end',
    [
      ['start', 0],
      ['delta', 0],
      ['end', 0],
    ],
    [
      ['start', 0],
      ['delta', 0],
      ['stop', 0],
      ['end', 0],
    ],
  ],
  [
    'a second end',
    [
      ['start', 0],
      ['stop', 0],
      ['stop', 0],
      ['stop', 1],
    ],
    [
      ['start', 0],
      ['stop', 0],
    ],
  ],
]
for (const [name, sent, expected] of cases)
  test(`blocks of a passed stream: ${name}`, () => {
    const { wire, changed } = passed(sent)
    assert.equal(wire, wireOf(expected))
    assert.equal(changed, wireOf(sent) !== wireOf(expected))
  })
