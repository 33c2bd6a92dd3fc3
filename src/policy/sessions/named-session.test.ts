import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientRequests, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import type { JsonObject } from '../../core/json.ts'
import { type NamedSession, namedSession } from './named-session.ts'

type Headers = Readonly<Record<string, string>>

const [ID, PART] = ['6abc6a22-10e9-42bd-ac97-428b69359906', '018f6a0b-0000-4000-8000-000000000002']
const session = (value: string, agent: string | null = null): NamedSession => ({ value, agent })

/** Headers and members as the clients send them to a server that records them; with other IDs. */
const CLIENTS: readonly (readonly [
  client: string,
  headers: Headers,
  members: JsonObject,
  found: NamedSession | null,
])[] = [
  [
    'Claude Code 2.1.328',
    { 'x-claude-code-session-id': ID, 'x-app': 'cli' },
    { metadata: { user_id: `{"device_id":"46ab0c04","account_uuid":"","session_id":"${ID}"}` } },
    session(ID),
  ],
  [
    'a sub-agent of Claude Code',
    { 'x-claude-code-session-id': ID, 'x-claude-code-agent-id': PART, 'x-claude-code-parent-agent-id': 'a1' },
    {},
    session(ID, PART),
  ],
  [
    'Claude Code behind a proxy that drops its header (yvgude/lean-ctx#1730)',
    {},
    { metadata: { user_id: `{"device_id":"46ab0c04","account_uuid":"","session_id":"${ID}"}` } },
    session(ID),
  ],
  [
    'an earlier Claude Code',
    {},
    { metadata: { user_id: `user_${'ab12'.repeat(16)}_account__session_${ID}` } },
    session(ID),
  ],
  [
    'Codex 0.169.0',
    { 'session-id': ID, 'thread-id': ID, 'x-client-request-id': ID, originator: 'codex_exec' },
    { prompt_cache_key: ID, client_metadata: { session_id: ID, thread_id: ID } },
    session(ID),
  ],
  [
    'a sub-agent of Codex, which has the session of its root (ranxianglei/billion-context#317)',
    { 'session-id': ID, 'thread-id': PART },
    {},
    session(ID, PART),
  ],
  ['an earlier Codex', { session_id: ID }, {}, session(ID)],
  ['Codex without its headers', {}, { client_metadata: { session_id: ID, thread_id: PART } }, session(ID, PART)],
  [
    'opencode 1.18.33',
    { 'x-session-affinity': 'ses_f84c6ba38ffe', 'x-session-id': 'ses_f84c6ba38ffe' },
    {},
    session('ses_f84c6ba38ffe'),
  ],
  [
    'a sub-agent of opencode, which is a session with a parent',
    { 'x-session-affinity': 'ses_2', 'x-session-id': 'ses_2', 'x-parent-session-id': 'ses_1' },
    {},
    session('ses_1', 'ses_2'),
  ],
  ['an SDK', { 'user-agent': 'OpenAI/Python 2.54.0' }, { model: 'm', messages: [], user: 'u' }, null],
]

for (const [client, headers, members, found] of CLIENTS)
  test(`session of ${client}`, () => {
    assert.deepEqual(
      namedSession((name) => headers[name], members),
      found,
    )
  })

const RULES: readonly (readonly [rule: string, headers: Headers, members: JsonObject, found: NamedSession | null])[] = [
  ['our header is first', { 'x-headgate-session': 'a', 'session-id': 'b' }, {}, session('a')],
  ['with our agent', { 'x-headgate-session': 'a', 'x-headgate-agent': 'b' }, {}, session('a', 'b')],
  ['headers are before the body', { 'x-litellm-session-id': 'a' }, { session_id: 'b' }, session('a')],
  ['128 characters', { 'x-headgate-session': 'x'.repeat(128) }, {}, session('x'.repeat(128))],
  ['129 are ignored', { 'x-headgate-session': 'x'.repeat(129) }, {}, null],
  ['and the next source is read', { 'x-headgate-session': 'a b', 'x-session-id': 'c' }, {}, session('c')],
  ['an empty one is ignored', { 'x-headgate-session': '' }, { session_id: '' }, null],
  ['text that is not ASCII is ignored', { 'x-headgate-session': 'é' }, { session_id: '\u0000' }, null],
  ['members of other types are ignored', {}, { session_id: 7, metadata: 'x', conversation: [] }, null],
  ['metadata.session_id', {}, { metadata: { session_id: 'a', user_id: 'u' } }, session('a')],
  ['conversation as a text', {}, { conversation: 'conv_1' }, session('conv_1')],
  ['conversation as an object', {}, { conversation: { id: 'conv_1' } }, session('conv_1')],
  ['user_id that is no JSON object', {}, { metadata: { user_id: '{"session_id":' } }, null],
  ['a user_id of any length', {}, { metadata: { user_id: `{"session_id":"a","x":"${'y'.repeat(2_000)}"}` } }, null],
  ['an agent that is not valid', { 'session-id': 'a', 'thread-id': 'b c' }, {}, session('a')],
]

for (const [rule, headers, members, found] of RULES)
  test(`session: ${rule}`, () => {
    assert.deepEqual(
      namedSession((name) => headers[name], members),
      found,
    )
  })

/** Recorded clients that name their session; all requests of others name none. */
const NAMING = /^(?:codex|opencode)/i

test('session: recorded requests name one exactly if their client does', { skip: skipWithoutRecordings }, () => {
  const requests = clientRequests().filter(({ path }) => /responses|completions|messages/.test(path))
  const found = requests.map(({ name, headers, body }) => [name, namedSession((one) => headers[one], body)] as const)
  assert.ok(found.filter(([, one]) => one !== null).length >= 10)
  assert.deepEqual(
    found.filter(([name, one]) => NAMING.test(name) !== (one !== null)),
    [],
  )
  // Each belongs to a main agent.
  assert.deepEqual(
    found.filter(([, one]) => one && one.agent !== null),
    [],
  )
})
