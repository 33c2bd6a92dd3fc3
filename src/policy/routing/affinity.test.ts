import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatRequest, Message, Part, Tool } from '../../core/chat.ts'
import { affinityOf } from './affinity.ts'

const say = (text: string): Part => ({ type: 'text', at: '', text })
const system = (...content: readonly Part[]): Message => ({ role: 'system', at: '', as: 'system', content })
const user = (...content: readonly Part[]): Message => ({ role: 'user', at: '', content })
const assistant = (...content: readonly Part[]): Message => ({ role: 'assistant', at: '', content })
const tool = (name: string): Tool => ({ kind: 'function', at: '', name })
const request = (messages: readonly Message[], more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm',
  stream: false,
  messages,
  tools: [],
  settings: {},
  extras: [],
  ...more,
})
const conversation = (value: string | { id: string } | null) => ({
  extras: [{ at: 'conversation', name: 'conversation', value, essential: true }],
})
const own = (name: 'user' | 'promptCacheKey', value: string) => ({ settings: { [name]: { value, at: name } } })
const image = (url: string): Part => ({ type: 'image', at: '', source: { kind: 'url', url } })
const data = (data: string): Part => ({ type: 'image', at: '', source: { kind: 'data', mediaType: 'image/png', data } })
const file = (id: string): Part => ({ type: 'file', at: '', source: { kind: 'id', id, protocol: 'openai-chat' } })
const foreign = (type: string): Part => ({ type: 'foreign', at: '', protocol: 'openai-chat', raw: { type } })
const long = (middle: string) => 'a'.repeat(5_000) + middle + 'z'.repeat(5_000)

const opening = [system(say('be kind')), user(say('hi'))]
const later = [...opening, assistant(say('hello')), user(say('and now?'))]

const alike: readonly (readonly [name: string, one: ChatRequest, other: ChatRequest])[] = [
  ['the first turn and a later one', request(opening), request(later)],
  ['later turns of any length', request(later), request([...later, ...later, ...later])],
  [
    'conversations that begin with an assistant message',
    request([assistant(say('welcome')), user(say('hi'))]),
    request([assistant(say('welcome')), user(say('hi')), assistant(say('yes?'))]),
  ],
  ['other models and settings', request(opening), request(opening, { model: 'n', stream: true })],
  [
    'the same prompt_cache_key with other messages',
    request(opening, own('promptCacheKey', 'k')),
    request([user(say('other'))], { ...own('promptCacheKey', 'k'), tools: [tool('f')] }),
  ],
  [
    'the same prompt_cache_key with other conversations',
    request(opening, { ...own('promptCacheKey', 'k'), ...conversation('c') }),
    request(opening, { ...own('promptCacheKey', 'k'), ...conversation('d') }),
  ],
  [
    'a conversation as a text and as an object',
    request(opening, conversation('c')),
    request([], conversation({ id: 'c' })),
  ],
  ['the same tools', request(opening, { tools: [tool('f')] }), request(later, { tools: [tool('f')] })],
  ['the same user', request(opening, own('user', 'u')), request(later, own('user', 'u'))],
  ['conversation: null and no conversation', request(opening), request(opening, conversation(null))],
  ['a difference in the middle of a long text', request([user(say(long('1')))]), request([user(say(long('2')))])],
  [
    'a difference after 64 parts',
    request([user(...Array.from({ length: 64 }, () => say('x')), say('1'))]),
    request([user(...Array.from({ length: 64 }, () => say('x')), say('2'))]),
  ],
  [
    'a difference after 64 parts of several messages',
    request([
      system(...Array.from({ length: 40 }, () => say('x'))),
      user(...Array.from({ length: 24 }, () => say('x')), say('1')),
    ]),
    request([
      system(...Array.from({ length: 40 }, () => say('x'))),
      user(...Array.from({ length: 24 }, () => say('x')), say('2')),
    ]),
  ],
  [
    'a difference after 64 tools',
    request(opening, { tools: [...Array.from({ length: 64 }, () => tool('f')), tool('g')] }),
    request(opening, { tools: [...Array.from({ length: 64 }, () => tool('f')), tool('h')] }),
  ],
]
for (const [name, one, other] of alike)
  test(`affinity: equal for ${name}`, () => assert.equal(affinityOf(one), affinityOf(other)))

const apart: readonly (readonly [name: string, one: ChatRequest, other: ChatRequest])[] = [
  ['another question', request(opening), request([system(say('be kind')), user(say('ho'))])],
  ['another instruction', request(opening), request([system(say('be brief')), user(say('hi'))])],
  ['other tools', request(opening, { tools: [tool('f')] }), request(opening, { tools: [tool('g')] })],
  ['tools and no tools', request(opening, { tools: [tool('f')] }), request(opening)],
  ['other users', request(opening, own('user', 'u')), request(opening, own('user', 'v'))],
  [
    'another prompt_cache_key',
    request(opening, own('promptCacheKey', 'k')),
    request(opening, own('promptCacheKey', 'l')),
  ],
  ['other conversations', request(opening, conversation('c')), request(opening, conversation({ id: 'd' }))],
  ['the end of a long text', request([user(say(`${long('')}1`))]), request([user(say(`${long('')}2`))])],
  ['the beginning of a long text', request([user(say(`1${long('')}`))]), request([user(say(`2${long('')}`))])],
  ['the length of a long text', request([user(say(long('1')))]), request([user(say(long('11')))])],
  [
    'the middle of a text of 2,048',
    request([user(say('b'.repeat(2_048)))]),
    request([user(say(`${'b'.repeat(1_024)}c${'b'.repeat(1_023)}`))]),
  ],
  ['a second part', request([user(say('a'), say('b'))]), request([user(say('a'), say('c'))])],
  ['two parts and one part with the same text', request([user(say('a'), say('b'))]), request([user(say('ab'))])],
  ['image URLs', request([user(image('a'))]), request([user(image('b'))])],
  ['image data', request([user(data('a'))]), request([user(data('b'))])],
  ['files', request([user(file('a'))]), request([user(file('b'))])],
  [
    'audio',
    request([user({ type: 'audio', at: '', data: 'a', format: 'wav' })]),
    request([user({ type: 'audio', at: '', data: 'b', format: 'wav' })]),
  ],
  ['parts of one format only', request([user(foreign('a'))]), request([user(foreign('b'))])],
  [
    'tools of one format only',
    request(opening, { tools: [{ kind: 'foreign', at: '', protocol: 'openai-chat', raw: { type: 'a' } }] }),
    request(opening, { tools: [{ kind: 'foreign', at: '', protocol: 'openai-chat', raw: { type: 'b' } }] }),
  ],
  [
    'earlier tool calls',
    request([assistant({ type: 'tool-call', at: '', id: '1', name: 'f', arguments: '' })]),
    request([assistant({ type: 'tool-call', at: '', id: '1', name: 'g', arguments: '' })]),
  ],
  [
    'earlier refusals and reasoning',
    request([assistant({ type: 'refusal', at: '', text: 'a' }, { type: 'reasoning', at: '', text: 'a' })]),
    request([assistant({ type: 'refusal', at: '', text: 'a' }, { type: 'reasoning', at: '', text: 'b' })]),
  ],
]
for (const [name, one, other] of apart)
  test(`affinity: differs for ${name}`, () => assert.notEqual(affinityOf(one), affinityOf(other)))

test('affinity: reads a bounded number of characters, however long the request', () => {
  const text = 'x'.repeat(1_000_000)
  const much = Array.from({ length: 200 }, () => system(say(text), say(text)))
  const tools = Array.from({ length: 1_000 }, () => tool(text))
  assert.ok(affinityOf(request(much, { tools, ...own('user', text) })).length < 130 * 2_070)
})

test('affinity: equal for empty requests', () => assert.equal(affinityOf(request([])), affinityOf(request([]))))
