import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type FailureKind, fail } from '../../core/failure.ts'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan, Target } from '../../core/target.ts'
import {
  emptyHistory,
  isSameModel,
  isShortWait,
  isTooSmall,
  recordFailure,
  remainingTargets,
  sameModelRetry,
  sameTargetRetry,
} from './next-target.ts'

const key = (id: string): ProviderKey => ({ id, secret: null, weight: 1 })
const instance = (id: string, keys: readonly string[]): Instance => ({
  id,
  provider: { name: id, title: id, order: 1, speaks: [], auth: 'none' },
  baseUrl: `http://${id}.example`,
  keys: keys.map(key),
  models: [],
  speaks: [],
  variables: {},
})
const at = (where: Instance, model: string): Candidate => ({ instance: where, model, because: '', weight: 1 })

const a = instance('a', ['1', '2'])
const b = instance('b', ['3'])
const plan: Plan = { by: 'default', candidates: [at(a, 'm'), at(a, 'n'), at(b, 'm')], skipped: [] }
const windows: Record<string, number> = { 'a m': 8_000, 'a n': 32_000, 'b m': 8_000 }
const windowOf = ({ instance: { id }, model }: Candidate) => windows[`${id} ${model}`]
const names = (targets: Iterable<Target>) =>
  [...targets].map(({ candidate, key: { id } }) => `${candidate.instance.id}${id}/${candidate.model}`)
const left = (...failed: readonly (readonly [number, string, FailureKind])[]) => {
  let history = emptyHistory
  for (const [index, id, kind] of failed) {
    const candidate = plan.candidates[index]
    assert.ok(candidate)
    const facts = { window: windowOf(candidate), member: kind === 'incompatible' ? 'temperature' : undefined }
    history = recordFailure(history, { candidate, key: key(id) }, fail(kind, ''), facts)
  }
  const found = remainingTargets(plan, history, ({ instance: { keys } }) => keys)
  return names([...found].filter(({ candidate }) => !isTooSmall(history, windowOf(candidate))))
}

const cases: readonly (readonly [string, ReturnType<typeof left>, readonly string[]])[] = [
  ['no failure: all targets in the plan’s order', left(), ['a1/m', 'a2/m', 'a1/n', 'a2/n', 'b3/m']],
  [
    'a bad status: other models first, the model’s other key last',
    left([0, '1', 'status']),
    ['a1/n', 'a2/n', 'b3/m', 'a2/m'],
  ],
  ['a rate limit: the model’s other key first', left([0, '1', 'rate_limited']), ['a2/m', 'a1/n', 'a2/n', 'b3/m']],
  ['a failed sign-in: the key is excluded for all models', left([0, '1', 'sign_in']), ['a2/n', 'b3/m', 'a2/m']],
  ['a rejected key: excluded for all models', left([0, '1', 'auth']), ['a2/m', 'a2/n', 'b3/m']],
  ['overload: the model is excluded with all keys', left([0, '1', 'overloaded']), ['a1/n', 'a2/n', 'b3/m']],
  ['an unreachable endpoint: all its targets are excluded', left([0, '1', 'refused']), ['b3/m']],
  ['an invalid request: no further target', left([0, '1', 'invalid_request']), []],
  ['content policy: no further target', left([0, '1', 'content_policy']), []],
  ['a request that is too long: only larger context windows', left([0, '1', 'context_length']), ['a1/n', 'a2/n']],
  ['too long for the larger window too', left([0, '1', 'context_length'], [1, '1', 'context_length']), []],
  ['a refusal: the model is excluded', left([0, '1', 'incompatible']), ['a1/n', 'a2/n', 'b3/m']],
  [
    'a second refusal for the same member, in one family',
    left([0, '1', 'incompatible'], [1, '1', 'incompatible']),
    ['b3/m'],
  ],
  ['a body that is too large: the model is excluded', left([0, '1', 'too_large_for_target']), ['a1/n', 'a2/n', 'b3/m']],
  ['two failures', left([0, '1', 'status'], [2, '3', 'timeout']), ['a1/n', 'a2/n', 'a2/m']],
]

for (const [name, found, wanted] of cases)
  test(`next target: ${name}`, () => {
    assert.deepEqual(found, wanted)
  })

test('next target: a context window counts as too small if it is known not to be larger than one that was exceeded', () => {
  assert.equal(isTooSmall(emptyHistory, undefined), false)
  const history = { ...emptyHistory, largerThan: 8_000 }
  for (const [window, expected] of [
    [8_000, true],
    [8_001, false],
    [undefined, false],
  ] as const)
    assert.equal(isTooSmall(history, window), expected)
})

const vendor = (id: string, more: object = {}): Candidate => {
  const made = instance(id, ['1'])
  return at({ ...made, baseUrl: `http://${id}.test`, provider: { ...made.provider, name: id, ...more } }, 'm')
}
const relay = { family: 'of the model' }
const refusals: readonly (readonly [string, readonly (readonly [Candidate, string | undefined])[], boolean])[] = [
  [
    'vendors of two families, the same member',
    [
      [vendor('x'), 'n'],
      [vendor('y'), 'n'],
    ],
    true,
  ],
  [
    'vendors of two families, other members',
    [
      [vendor('x'), 'n'],
      [vendor('y'), 'seed'],
    ],
    false,
  ],
  [
    'vendors that name no member',
    [
      [vendor('x'), undefined],
      [vendor('y'), undefined],
    ],
    false,
  ],
  [
    'vendors of one family',
    [
      [vendor('x'), 'n'],
      [vendor('y', { family: 'x' }), 'n'],
    ],
    false,
  ],
  [
    'two servers of one model',
    [
      [vendor('x', relay), 'n'],
      [vendor('y', relay), 'n'],
    ],
    false,
  ],
  [
    'a vendor, and a relay to it',
    [
      [vendor('x'), 'n'],
      [{ ...vendor('y', relay), model: 'x/m' }, 'n'],
    ],
    false,
  ],
  [
    'relays to two vendors',
    [
      [{ ...vendor('x', relay), model: 'p/m' }, 'n'],
      [{ ...vendor('y', relay), model: 'q/m' }, 'n'],
    ],
    true,
  ],
  [
    'one server',
    [
      [vendor('x'), 'n'],
      [{ ...vendor('x', { family: 'z' }), model: 'o' }, 'n'],
    ],
    false,
  ],
]
for (const [what, refused, final] of refusals)
  test(`next target: refusals of ${what} are ${final ? 'final' : 'not final'}`, () => {
    let history = emptyHistory
    for (const [candidate, member] of refused)
      history = recordFailure(history, { candidate, key: key('1') }, fail('incompatible', ''), { member })
    assert.equal(history.final, final)
  })

test('next target: a failed target is not tried again, whatever the failure', () => {
  const kinds: FailureKind[] = ['status', 'timeout', 'rate_limited', 'truncated', 'empty', 'malformed', 'permission']
  for (const kind of kinds) assert.ok(!left([0, '1', kind]).includes('a1/m'), kind)
})

test('next target: the same target is retried only after failures of short duration, and only if time is left', () => {
  const half = () => 0.5
  assert.deepEqual(sameTargetRetry(fail('status', ''), 60_000, half), { wait: 625 })
  assert.equal(sameTargetRetry(fail('status', ''), 1_000, half), null)
  assert.deepEqual(sameTargetRetry(fail('rate_limited', '', { retryAfter: 1_500 }), 60_000, half), { wait: 1_500 })
  assert.equal(sameTargetRetry(fail('rate_limited', '', { retryAfter: 2_500 }), 60_000, half), null)
  assert.equal(sameTargetRetry(fail('rate_limited', ''), 60_000, half), null)
  assert.equal(sameTargetRetry(fail('timeout', ''), 60_000, half), null)
  assert.deepEqual(sameTargetRetry(fail('sign_in', ''), 60_000, half), { wait: 625 })
})

test('next target: a short wait is at most two seconds and a quarter of the remaining time', () => {
  assert.equal(isShortWait(2_000, 8_000), true)
  assert.equal(isShortWait(2_001, 60_000), false)
  assert.equal(isShortWait(300, 1_200), true)
  assert.equal(isShortWait(300, 1_199), false)
  assert.equal(isShortWait(0, 0), true)
})

test('next target: a temporary DNS failure is retried soon, an unknown host name is not', () => {
  const half = () => 0.5
  const dns = (code?: string) => fail('dns', '', code === undefined ? {} : { upstream: { code } })
  assert.deepEqual(sameTargetRetry(dns('EAI_AGAIN'), 60_000, half), { wait: 150 })
  assert.deepEqual(sameTargetRetry(dns('EAI_AGAIN'), 600, half), { wait: 150 })
  assert.equal(sameTargetRetry(dns('EAI_AGAIN'), 599, half), null)
  assert.equal(sameTargetRetry(dns('ENOTFOUND'), 60_000, half), null)
  assert.equal(sameTargetRetry(dns(), 60_000, half), null)
  assert.deepEqual(sameTargetRetry(fail('conflict', ''), 60_000, half), { wait: 625 })
  // At most a quarter of the remaining time.
  assert.deepEqual(sameTargetRetry(fail('conflict', ''), 2_500, half), { wait: 625 })
  assert.equal(sameTargetRetry(fail('conflict', ''), 2_499, half), null)
})

test('next target: targets are computed only as far as they are iterated', () => {
  const many = Array.from({ length: 200 }, (_, n) => at(instance(`p${n}`, ['1']), 'm'))
  let iterated = 0
  const found = remainingTargets(
    { by: 'route', candidates: many, skipped: [] },
    emptyHistory,
    ({ instance: { keys } }) => {
      iterated++
      return keys
    },
  )
  const [first, second] = found
  assert.deepEqual(names([first, second].flatMap((one) => one ?? [])), ['p01/m', 'p11/m'])
  assert.equal(iterated, 2)
})

/** Names of one model in the lists of providers. */
const SAME = [
  ['gpt-5-mini', 'gpt-5-mini'],
  ['gpt-5-mini', 'openai/gpt-5-mini'],
  ['gpt-5-mini', 'relay/openai/GPT-5-Mini-2025-08-07'],
  ['gpt-5-mini', 'gpt-5-mini-20250807'],
  ['claude-sonnet-4-5', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'],
  ['claude-sonnet-4-5', 'anthropic.claude-sonnet-4-5@20250929'],
  ['claude-sonnet-4-5', 'global.us.anthropic.claude-sonnet-4-5-v12:10'],
  ['claude-sonnet-4-5', 'claude-sonnet-4-5-v2'],
] as const
const OTHERS = [
  ['gpt-5-mini', 'gpt-5'],
  ['gpt-5-mini', 'gpt-5-mini-vision'],
  ['claude-sonnet-4-5', 'a.b.c.d.claude-sonnet-4-5'],
  ['claude-sonnet-4-5', 'claude-sonnet-4-5-v123'],
  ['claude-sonnet-4-5', 'claude-sonnet-4-5-2025'],
] as const
for (const [one, other] of SAME)
  test(`next target: ${one} and ${other} are one model`, () => assert.ok(isSameModel(at(a, one), at(b, other))))
for (const [one, other] of OTHERS)
  test(`next target: ${one} and ${other} are two models`, () => assert.ok(!isSameModel(at(a, one), at(b, other))))

test('next target: the same model is tried again at the end of a rate limit, or soon after a short error', () => {
  const again = (kind: FailureKind, rest: object, longest = 2_000, random = 0.5) =>
    sameModelRetry(fail(kind, '', rest), longest, () => random)?.wait ?? null
  assert.equal(again('rate_limited', { retryAfter: 2_000 }), 2_000)
  assert.equal(again('rate_limited', { retryAfter: 2_001 }), null)
  assert.equal(again('rate_limited', {}), null)
  for (const status of [500, 502]) assert.equal(again('status', { status }), 625)
  assert.equal(again('status', { status: 500 }, 2_000, 1), 1_000)
  assert.equal(again('status', { status: 500 }, 450, 1), 450)
  assert.equal(again('status', { status: 500 }, 250, 0.5), 250)
  assert.equal(again('status', { status: 500 }, 249), null)
  for (const status of [501, 503, 429]) assert.equal(again('status', { status }), null)
  assert.equal(again('overloaded', { status: 500 }), null)
})
