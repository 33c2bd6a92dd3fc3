import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertLinear } from '../../../test/support/growth.ts'
import type { ChatRequest, Message } from '../../core/chat.ts'
import { withPairedCalls } from './paired-calls.ts'

/** A message in a word: `a:1,2` calls 1 and 2, `t:1` is the result of 1; other words are text of that role. */
const message = (word: string, index: number): Message => {
  const at = `messages[${index}]`
  const [role = '', ids = ''] = word.split(':')
  if (role === 't') return { role: 'tool', at, callId: ids, content: [{ type: 'text', at, text: 'r' }] }
  if (role === 's') return { role: 'system', as: 'system', at, content: [] }
  if (role === 'u') return { role: 'user', at, content: [{ type: 'text', at, text: 'q' }] }
  const calls = ids === '' ? [] : ids.split(',')
  return {
    role: 'assistant',
    at,
    content: calls.map((id) => ({ type: 'tool-call', at, id, name: 'f', arguments: '{}' })),
  }
}

const wordOf = ({ content, ...rest }: Message): string => {
  if (rest.role === 'tool') return `${rest.isError ? 'missing' : 't'}:${rest.callId}`
  if (rest.role === 'user') return content.length > 1 ? 'text' : 'u'
  const ids = content.flatMap((part) => (part.type === 'tool-call' ? [part.id] : []))
  return rest.role === 'system' ? 's' : `a${ids.length > 0 ? `:${ids}` : ''}`
}

const request = (messages: readonly Message[]) => ({ messages }) as ChatRequest

const cases: readonly (readonly [name: string, given: string, expected: string, dropped: readonly number[]])[] = [
  ['in order', 's u a:1,2 t:2 t:1 a u', 's u a:1,2 t:2 t:1 a u', []],
  ['calls of the last turn', 'u a:1', 'u a:1', []],
  ['the same IDs in each turn', 'u a:0 t:0 a:0 t:0', 'u a:0 t:0 a:0 t:0', []],
  ['one ID for two calls of a turn', 'u a:0,0 t:0 t:0', 'u a:0,0 t:0 t:0', []],
  // router-for-me/CLIProxyAPI#5375, LuthienResearch/luthien-proxy#167, agent0ai/agent-zero#1767
  ['a result without its call', 'u t:9 u', 'u text u', [1]],
  ['a result before its call', 'u t:1 a:1 u', 'u text a:1 missing:1 u', [1, 2]],
  ['two results of a call', 'u a:1 t:1 t:1 u', 'u a:1 t:1 text u', [3]],
  // letta-ai/letta#3308, smallmain/vscode-unify-chat-provider#152, anomalyco/opencode#8497
  ['a call without a result', 'u a:1 u', 'u a:1 missing:1 u', [1]],
  ['one of two results at the end', 'u a:1,2 t:2', 'u a:1,2 t:2 missing:1', [1]],
  ['a call without a result, whose ID is used again', 'u a:0 u a:0 t:0', 'u a:0 missing:0 u a:0 t:0', [1]],
  // Yeachan-Heo/gajae-code#4807
  ['a message between the results', 'u a:1,2 t:1 u t:2 u', 'u a:1,2 t:1 t:2 u u', []],
  ['a message before the result', 'u a:1 s t:1 u', 'u a:1 t:1 s u', []],
]
for (const [name, given, expected, dropped] of cases)
  test(`paired calls: ${name}`, () => {
    const before = request(given.split(' ').map(message))
    const { request: after, losses } = withPairedCalls(before)
    assert.equal(after.messages.map(wordOf).join(' '), expected)
    assert.deepEqual(
      losses.map(({ path }) => path).sort(),
      dropped.map((index) => `messages[${index}]`),
    )
    assert.equal(after === before, given === expected)
    assert.equal(withPairedCalls(after).request, after, 'nothing is left to do')
  })

test('paired calls: work is linear', () => {
  for (const [what, word] of [
    ['results without calls', (index: number) => `t:${index}`],
    ['calls without results', (index: number) => `a:${index}`],
  ] as const)
    assertLinear(what, 80_000, (size) => {
      withPairedCalls(request(Array.from({ length: size }, (_, index) => message(word(index), index))))
    })
})
