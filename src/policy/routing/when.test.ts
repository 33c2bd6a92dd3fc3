import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { ChatRequest, Message, Tool } from '../../core/chat.ts'
import { EFFORTS } from '../../core/chat.ts'
import type { Candidate } from '../../core/target.ts'
import { MEDIA_KINDS, type Patterns, type TargetCondition, TOOL_KINDS } from '../../core/target-condition.ts'
import { meetingDraft } from './allowed-plan.ts'
import type { PlanDraft } from './plan.ts'
import { chatShape, conditionText, plainShape, type RequestFacts, unmet } from './when.ts'

/** A request in the terms of the specification, from which facts are made. */
type Plain = {
  readonly team: string
  readonly key: string | null
  readonly user: string | null
  readonly style: string
  readonly tags: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  readonly tokens: number
  readonly tools: readonly string[]
  readonly media: readonly string[]
  readonly effort: string | null
}

const toolOf = (kind: string): Tool => {
  if (kind === 'hosted') return { kind: 'foreign', at: '', protocol: 'openai-responses', raw: {} }
  return kind === 'custom' ? { kind: 'custom', at: '', name: 't' } : { kind: 'function', at: '', name: 't' }
}

const mediaOf = (type: string): Message['content'][number] => {
  if (type === 'audio') return { type: 'audio', at: '', data: '', format: 'wav' }
  const source = { kind: 'url', url: 'https://example.com/x' } as const
  return type === 'image' ? { type: 'image', at: '', source } : { type: 'file', at: '', source }
}

const factsOf = ({ team, key, user, style, tags, headers, tokens, tools, media, effort }: Plain): RequestFacts => ({
  client: { ...ANONYMOUS, id: key ?? '', name: key ?? '', team: { id: `team_${team}`, name: team }, user, tags },
  style,
  headers: (name) => headers[name],
  shape: {
    inputTokens: () => tokens,
    chat: {
      messages: [{ role: 'user', at: '', content: [{ type: 'text', at: '', text: 'hi' }, ...media.map(mediaOf)] }],
      tools: tools.map(toolOf),
      extras: [],
      settings: effort === null ? {} : { effort: { value: EFFORTS.find((one) => one === effort) ?? 'low', at: '' } },
    },
  },
})

/** The specification written down naively: regular expressions and one expression for each fact. */
const holds = (when: TargetCondition, plain: Plain): boolean => {
  const fits = (patterns: Patterns | undefined, names: readonly string[]): boolean => {
    if (patterns === undefined) return true
    const list = [patterns].flat()
    const is = (glob: string) =>
      names.some((name) =>
        new RegExp(
          `^${glob
            .split('*')
            .map((part) => RegExp.escape(part))
            .join('.*')}$`,
          's',
        ).test(name),
      )
    const isExcluded = list.some((one) => one.startsWith('!') && is(one.slice(1)))
    const wanted = list.filter((one) => !one.startsWith('!'))
    return !isExcluded && (wanted.length === 0 || wanted.some(is))
  }
  const { team, key, user, style, tag = {}, header = {}, inputTokens = {}, tools, media, effort } = when
  const some = (value: string | null | undefined) => (value === null || value === undefined ? [] : [value])
  return (
    fits(team, [plain.team, `team_${plain.team}`]) &&
    fits(key, some(plain.key)) &&
    fits(user, some(plain.user)) &&
    fits(style, [plain.style]) &&
    Object.entries(tag).every(([name, patterns]) => fits(patterns, some(plain.tags[name]))) &&
    Object.entries(header).every(([name, patterns]) => fits(patterns, some(plain.headers[name.toLowerCase()]))) &&
    plain.tokens >= (inputTokens.from ?? 0) &&
    plain.tokens < (inputTokens.below ?? Number.POSITIVE_INFINITY) &&
    (typeof tools !== 'boolean' || tools === plain.tools.length > 0) &&
    (!Array.isArray(tools) || tools.some((kind) => plain.tools.includes(kind))) &&
    (media === undefined ||
      (media.length === 0 ? plain.media.length === 0 : media.some((one) => plain.media.includes(one)))) &&
    (effort === undefined || effort.some((one) => one === (plain.effort ?? 'none')))
  )
}

const { below, pick } = (() => {
  let state = 20_261_128
  const under = (count: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * count)
  }
  return { below: under, pick: <T>(all: readonly T[]): T => all[under(all.length)] ?? assert.fail() }
})()
const chance = (percent: number) => below(100) < percent
const NAMES = ['a', 'ab', 'abc', 'b.c', 'a+b']
const GLOBS = [...NAMES, '*', 'a*', '*b', '*b*', 'a*c', 'team_*', '!a', '!a*', '!*', '!b.c']
const patterns = (): Patterns => (chance(40) ? pick(GLOBS) : Array.from({ length: 1 + below(3) }, () => pick(GLOBS)))
const subset = <T>(all: readonly T[]): T[] => all.filter(() => chance(40))

const randomCondition = (): TargetCondition => ({
  ...(chance(25) && { team: patterns() }),
  ...(chance(15) && { key: patterns() }),
  ...(chance(15) && { user: patterns() }),
  ...(chance(15) && { style: chance(50) ? 'chat' : ['messages', '!chat'] }),
  ...(chance(15) && { tag: { tier: patterns(), ...(chance(30) && { cost: patterns() }) } }),
  ...(chance(15) && { header: { 'X-Tier': patterns() } }),
  ...(chance(25) && {
    inputTokens: { ...(chance(60) && { from: below(100) }), ...(chance(60) && { below: 1 + below(100) }) },
  }),
  ...(chance(25) && { tools: chance(60) ? chance(50) : [pick(TOOL_KINDS), ...subset(TOOL_KINDS)] }),
  ...(chance(25) && { media: subset(MEDIA_KINDS) }),
  ...(chance(20) && { effort: [pick(EFFORTS), ...subset(EFFORTS)] }),
})

const randomRequest = (): Plain => ({
  team: pick(NAMES),
  key: chance(70) ? pick(NAMES) : null,
  user: chance(50) ? pick(NAMES) : null,
  style: pick(['chat', 'messages', 'responses']),
  tags: { ...(chance(50) && { tier: pick(NAMES) }), ...(chance(30) && { cost: pick(NAMES) }) },
  headers: chance(50) ? { 'x-tier': pick(NAMES) } : {},
  tokens: below(100),
  tools: subset(TOOL_KINDS),
  media: subset(MEDIA_KINDS),
  effort: chance(50) ? pick(EFFORTS) : null,
})

const INSTANCES = ['a', 'b', 'c', 'd'].map((id) => instance(id))
const targets = (conditions: readonly (TargetCondition | null)[]): readonly Candidate[] =>
  conditions.map((when, at) => ({
    instance: INSTANCES[at] ?? assert.fail(),
    model: 'm',
    because: '',
    weight: 1,
    ...(when && { when }),
  }))

const draftOf = (own: readonly Candidate[], others: readonly Candidate[]): PlanDraft => ({
  by: 'route',
  route: 'fast',
  groups: [
    { candidates: own, strategy: 'priority', own: true },
    { candidates: others, strategy: 'priority', own: false },
  ],
  repeats: false,
  onlyFirst: false,
  skipped: [],
  isConditional: own.some(({ when }) => when !== undefined),
})

test('when: 100,000 random routes have the targets of a naive evaluator', () => {
  let refused = 0
  for (let run = 0; run < 100_000; run++) {
    const conditions = Array.from({ length: 1 + below(3) }, () => (chance(15) ? null : randomCondition()))
    const request = randomRequest()
    const draft = draftOf(targets(conditions), targets([null, null, null, null]).slice(3))
    const expected = conditions.flatMap((when, at) => (when === null || holds(when, request) ? [at] : []))
    const met = meetingDraft(draft, factsOf(request), 'fast')
    if (expected.length === 0) {
      refused++
      assert.equal(met.ok ? 'a plan' : met.failure.kind, 'no_matching_target', JSON.stringify({ conditions, request }))
      continue
    }
    assert.ok(met.ok, JSON.stringify({ conditions, request }))
    const [own, others] = met.value.groups
    assert.deepEqual(
      own?.candidates.map((one) => draft.groups[0]?.candidates.indexOf(one)),
      expected,
      JSON.stringify({ conditions, request }),
    )
    assert.equal(others?.candidates.length, 1)
    const left = conditions.length - expected.length
    assert.equal(met.value.skipped.length, left)
    assert.equal(met.value.unmet?.length ?? 0, left)
  }
  // Both outcomes are common, so that neither is tested by chance.
  assert.ok(refused > 20_000 && refused < 80_000, String(refused))
})

const BASE: Plain = {
  team: 'search',
  key: 'ci',
  user: null,
  style: 'chat',
  tags: {},
  headers: {},
  tokens: 81_000,
  tools: ['function'],
  media: ['image'],
  effort: null,
}

const texts: readonly (readonly [TargetCondition, string])[] = [
  [{ inputTokens: { below: 50_000 } }, 'inputTokens 81,000 is not below 50,000'],
  [{ inputTokens: { from: 1_000_000 } }, 'inputTokens 81,000 is below 1,000,000'],
  [{ tools: false }, 'the request has tools'],
  [{ tools: ['hosted'] }, 'the request has no tools of the kind hosted'],
  [{ media: [] }, 'the request has media (image)'],
  [{ media: ['audio', 'file'] }, 'the request has no audio or file'],
  [{ effort: ['low', 'medium'] }, 'effort none is not low or medium'],
  // Names of other teams, and values of headers, are not shown to clients.
  [{ team: ['research', '!search'] }, 'team does not match'],
  [{ header: { 'X-Tier': 'gold' } }, 'header X-Tier does not match'],
  [{ tag: { cost: 'a*' } }, 'tag cost does not match'],
]

for (const [when, text] of texts)
  test(`when: the reason says "${text}"`, () => assert.equal(unmet(when, factsOf(BASE))?.text, text))

test('when: a request without messages has no tools, media and effort', () => {
  const facts = { ...factsOf(BASE), shape: plainShape(() => 10) }
  assert.equal(unmet({ tools: false, media: [], effort: ['none'], inputTokens: { below: 11 } }, facts), null)
  assert.equal(unmet({ tools: true }, facts)?.fact, 'tools')
})

test('when: tools that a member requests count as hosted', () => {
  const { shape, ...facts } = factsOf({ ...BASE, tools: [] })
  const extras = [
    { at: 'web_search_options', name: 'web_search_options', value: {}, essential: true, optional: true },
  ] as const
  const chat = shape.chat && { ...shape.chat, extras }
  assert.equal(unmet({ tools: ['hosted'] }, { ...facts, shape: { ...shape, chat } }), null)
  assert.equal(unmet({ tools: false }, { ...facts, shape: { ...shape, chat } })?.fact, 'tools')
})

test('when: tokens are estimated once, and only if a condition names them', () => {
  let reads = 0
  const chat: ChatRequest = {
    model: 'fast',
    stream: false,
    tools: [],
    settings: {},
    extras: [],
    get messages(): readonly Message[] {
      reads++
      return [{ role: 'user', at: '', content: [{ type: 'text', at: '', text: 'hello' }] }]
    },
  }
  const facts = { ...factsOf(BASE), shape: chatShape(chat) }
  assert.equal(unmet({ team: 'search' }, facts), null)
  assert.equal(reads, 0)
  for (let n = 0; n < 5; n++) unmet({ inputTokens: { below: 100 } }, facts)
  assert.equal(reads, 1)
})

test('when: a condition as one line', () => {
  const when: TargetCondition = {
    team: ['a*', '!ab'],
    header: { 'x-tier': 'gold' },
    inputTokens: { from: 5, below: 50_000 },
    tools: false,
    media: [],
    effort: ['low', 'high'],
  }
  assert.equal(
    conditionText(when),
    'team a* or !ab; header x-tier gold; inputTokens from 5; inputTokens below 50,000; tools no; media none; effort low or high',
  )
})
