import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { GuardService, RequestText } from '../../../core/guard.ts'
import { Secret } from '../../../core/secret.ts'
import { serviceCalls } from './calls.ts'
import { type AskedTexts, batches, joined, labelName, maskLabel, type ServiceReading } from './service-call.ts'

const COMMON = {
  url: new Secret('http://guard:8080'),
  fingerprint: '',
  headers: {},
  timeout: 800,
  onError: 'block',
  answers: null,
  facts: null,
} as const

const HEADGATE: GuardService = { ...COMMON, kind: 'headgate', secret: null }
const LITELLM: GuardService = { ...COMMON, kind: 'litellm', parameters: { threshold: 0.8 } }
const MODERATION: GuardService = { ...COMMON, kind: 'moderation', model: 'omni-moderation-latest', thresholds: {} }
const PRESIDIO: GuardService = { ...COMMON, kind: 'presidio', language: 'en', entities: null, scoreThreshold: null }
const BEDROCK: GuardService = { ...COMMON, kind: 'bedrock', guardrail: 'gr1abc', version: 'DRAFT', region: 'eu-west-1' }

const texts = (...all: readonly string[]): readonly RequestText[] =>
  all.map((text) => ({ text, role: 'user', kind: 'text' }))

const asked = (...all: readonly string[]): AskedTexts => ({
  id: 'req_1',
  phase: 'request',
  final: true,
  team: { id: 'team_1', name: 'search' },
  key: { id: 'key_1', name: 'ci' },
  model: 'fast',
  style: 'chat',
  texts: texts(...all),
})

/** The reading of one answer to these texts. */
const readingOf = (service: GuardService, all: readonly string[], answer: unknown): ServiceReading => {
  const [call] = serviceCalls(service, asked(...all))
  assert.ok(call)
  return call.read(answer)
}

/** The parts that the spans of a finding cover, with their labels or replacements. */
const partsOf = (reading: ServiceReading, all: readonly string[]) => {
  assert.ok('spans' in reading, JSON.stringify(reading))
  return reading.spans.map(({ i, start, end, label, replacement }) => [
    all[i]?.slice(start, end),
    replacement === undefined ? label : { replacement },
  ])
}

const assertWrong = (service: GuardService, all: readonly string[], answers: readonly unknown[]) => {
  for (const answer of [...answers, null, undefined, 'x', 7, true])
    assert.ok('wrong' in readingOf(service, all, answer), `accepted: ${JSON.stringify(answer)}`)
}

// ── Own contract ────────────────────────────────────────────────────────────────────────────────────────────────────

test('services: headgate receives the call and its texts', () => {
  const [call, ...others] = serviceCalls(HEADGATE, asked('hello', 'bob'))
  assert.equal(others.length, 0)
  assert.equal(call?.path, '')
  assert.deepEqual(call?.body, {
    ...{ id: 'req_1', phase: 'request', final: true, team: 'search', key: 'ci', model: 'fast', style: 'chat' },
    texts: [
      { i: 0, role: 'user', kind: 'text', text: 'hello' },
      { i: 1, role: 'user', kind: 'text', text: 'bob' },
    ],
  })
})

test('services: headgate decides by its action', () => {
  const allow = readingOf(HEADGATE, ['a'], { action: 'allow' })
  assert.deepEqual(allow, { action: 'allow', message: null, labels: [], spans: [] })
  const block = readingOf(HEADGATE, ['a'], {
    action: 'block',
    message: 'No\r\nsecrets.',
    labels: ['jail break'],
    more: 1,
  })
  assert.deepEqual(block, { action: 'block', message: 'No secrets.', labels: ['jail-break'], spans: [] })
  assert.equal('wrong' in readingOf(HEADGATE, ['a'], { action: 'flag', labels: ['x'] }), false)
  const all = ['ask bob', 'and ann 😀']
  const spans = [
    { i: 0, start: 4, end: 7, label: 'PERSON' },
    { i: 1, start: 8, end: 10, label: 'FACE' },
  ]
  assert.deepEqual(partsOf(readingOf(HEADGATE, all, { action: 'mask', spans }), all), [
    ['bob', 'PERSON'],
    ['😀', 'FACE'],
  ])
})

test('services: headgate: any other shape is wrong', () => {
  const span = { i: 0, start: 0, end: 1, label: 'X' }
  assertWrong(
    HEADGATE,
    ['abc'],
    [
      {},
      [],
      { action: 'ALLOW' },
      { action: 'block', message: 7 },
      { action: 'block', labels: 'x' },
      { action: 'block', labels: [7] },
      { action: 'mask' },
      { action: 'mask', spans: [] },
      { action: 'mask', spans: {} },
      ...[
        { ...span, i: 1 },
        { ...span, i: -1 },
        { ...span, i: 0.5 },
        { ...span, start: 1 },
        { ...span, start: -1 },
        { ...span, end: 4 },
        { ...span, end: '1' },
        { ...span, label: undefined },
        'x',
      ].map((one) => ({ action: 'mask', spans: [one] })),
    ],
  )
})

// ── LiteLLM: examples of docs.litellm.ai/docs/adding_provider/generic_guardrail_api ─────────────────────────────────

test('services: litellm receives its documented request', () => {
  const [call] = serviceCalls(LITELLM, asked('hello', 'bob'))
  assert.equal(call?.path, '/beta/litellm_basic_guardrail_api')
  assert.deepEqual(call?.body, {
    texts: ['hello', 'bob'],
    request_data: {
      user_api_key_hash: 'key_1',
      user_api_key_alias: 'ci',
      user_api_key_team_id: 'team_1',
      user_api_key_team_alias: 'search',
    },
    input_type: 'request',
    litellm_call_id: 'req_1',
    additional_provider_specific_params: { threshold: 0.8 },
  })
  const [answer] = serviceCalls(LITELLM, { ...asked('x'), phase: 'answer' })
  assert.equal(answer?.body.input_type, 'response')
})

test('services: litellm decides by its action, and its reason goes nowhere', () => {
  const all = ['my ssn is 123', 'hello']
  const none = { action: 'NONE', blocked_reason: null, texts: null, images: null }
  assert.equal((readingOf(LITELLM, all, none) as { action: string }).action, 'allow')
  const reason = 'Content contains prohibited terms: 123'
  const blocked = readingOf(LITELLM, all, { action: 'BLOCKED', blocked_reason: reason })
  assert.deepEqual(blocked, { action: 'block', message: null, labels: [], spans: [] })
  const changed = readingOf(LITELLM, all, { action: 'GUARDRAIL_INTERVENED', texts: ['[REDACTED]', 'hello'] })
  assert.deepEqual(partsOf(changed, all), [['my ssn is 123', { replacement: '[REDACTED]' }]])
  const same = readingOf(LITELLM, all, { action: 'GUARDRAIL_INTERVENED', texts: all })
  assert.equal((same as { action: string }).action, 'allow')
})

test('services: litellm: any other shape is wrong, also texts of another number', () => {
  assertWrong(
    LITELLM,
    ['a', 'b'],
    [
      {},
      [],
      { action: 'none' },
      { action: 'GUARDRAIL_INTERVENED' },
      { action: 'GUARDRAIL_INTERVENED', texts: null },
      { action: 'GUARDRAIL_INTERVENED', texts: ['a'] },
      { action: 'GUARDRAIL_INTERVENED', texts: ['a', 'b', 'c'] },
      { action: 'GUARDRAIL_INTERVENED', texts: ['a', 7] },
    ],
  )
})

// ── OpenAI's moderation: the example of platform.openai.com/docs/api-reference/moderations/create ───────────────────

const FLAGGED = {
  flagged: true,
  categories: {
    harassment: true,
    'harassment/threatening': true,
    sexual: false,
    hate: false,
    'hate/threatening': false,
    illicit: false,
    'illicit/violent': false,
    'self-harm/intent': false,
    'self-harm/instructions': false,
    'self-harm': false,
    'sexual/minors': false,
    violence: true,
    'violence/graphic': true,
  },
  category_scores: {
    harassment: 0.8189693396524255,
    'harassment/threatening': 0.804985420696006,
    sexual: 1.573112165348997e-6,
    hate: 0.007562942636942845,
    'hate/threatening': 0.004208854591835476,
    illicit: 0.030535955153511665,
    'illicit/violent': 0.008925306722380033,
    'self-harm/intent': 0.00023023930975076432,
    'self-harm/instructions': 0.0002293869201073356,
    'self-harm': 0.012598046106750154,
    'sexual/minors': 2.212566909570261e-8,
    violence: 0.9999992735124786,
    'violence/graphic': 0.843064871157054,
  },
}
const CLEAN = {
  flagged: false,
  categories: Object.fromEntries(Object.keys(FLAGGED.categories).map((name) => [name, false])),
  category_scores: FLAGGED.category_scores,
}
const moderated = (...results: readonly unknown[]) => ({
  id: 'modr-0d9740456c391e43c445bf0f010940c7',
  model: 'omni-moderation-latest',
  results,
})
const labelsOf = (reading: ServiceReading) => ('labels' in reading ? [reading.action, ...reading.labels] : reading)

test('services: moderation blocks what is flagged, by category', () => {
  const [call] = serviceCalls(MODERATION, asked('I want to kill them.', 'hello'))
  assert.equal(call?.path, '/moderations')
  assert.deepEqual(call?.body, { model: 'omni-moderation-latest', input: ['I want to kill them.', 'hello'] })
  assert.deepEqual(labelsOf(readingOf(MODERATION, ['a', 'b'], moderated(CLEAN, FLAGGED))), [
    'block',
    ...['harassment', 'harassment/threatening', 'violence', 'violence/graphic'],
  ])
  assert.deepEqual(labelsOf(readingOf(MODERATION, ['a'], moderated(CLEAN))), ['allow'])
  // Flagged without a category that says why.
  assert.deepEqual(labelsOf(readingOf(MODERATION, ['a'], moderated({ ...CLEAN, flagged: true }))), ['block'])
})

test('services: moderation: a threshold replaces the decision for its category only', () => {
  const strict = { ...MODERATION, thresholds: { hate: 0.007 } }
  assert.deepEqual(labelsOf(readingOf(strict, ['a'], moderated(CLEAN))), ['block', 'hate'])
  const lax = { ...MODERATION, thresholds: { harassment: 0.9, 'harassment/threatening': 0.9, violence: 1 } }
  assert.deepEqual(labelsOf(readingOf(lax, ['a'], moderated(FLAGGED))), ['block', 'violence/graphic'])
  const laxer = { ...lax, thresholds: { ...lax.thresholds, 'violence/graphic': 0.9 } }
  assert.deepEqual(labelsOf(readingOf(laxer, ['a'], moderated(FLAGGED))), ['allow'])
  // A score that is missing is not 0.
  const unknown = { ...MODERATION, thresholds: { nonsense: 0.5 } }
  assert.ok('wrong' in readingOf(unknown, ['a'], moderated(CLEAN)))
})

test('services: moderation: any other shape is wrong, also results of another number', () => {
  assertWrong(
    MODERATION,
    ['a', 'b'],
    [
      {},
      { error: { message: 'x' } },
      { results: {} },
      moderated(),
      moderated(CLEAN),
      moderated(CLEAN, CLEAN, CLEAN),
      moderated(CLEAN, null),
      moderated(CLEAN, { ...CLEAN, flagged: 'no' }),
      moderated(CLEAN, { flagged: false }),
    ],
  )
})

// ── Presidio: examples of docs/api-docs/api-docs.yml ────────────────────────────────────────────────────────────────

const LICENSE = 'John Smith drivers license is AC432223'
const PERSON_AND_LICENSE = [
  { entity_type: 'PERSON', start: 0, end: 10, score: 0.85, analysis_explanation: null },
  { analysis_explanation: null, end: 38, entity_type: 'US_DRIVER_LICENSE', score: 0.6499999999999999, start: 30 },
]

test('services: presidio receives a string for one text, and a list for several', () => {
  const [one] = serviceCalls(PRESIDIO, asked(LICENSE))
  assert.equal(one?.path, '/analyze')
  assert.deepEqual(one?.body, { text: LICENSE, language: 'en' })
  const service = { ...PRESIDIO, entities: ['PERSON'], scoreThreshold: 0.6 }
  const [two] = serviceCalls(service, asked('a', 'b'))
  assert.deepEqual(two?.body, { text: ['a', 'b'], language: 'en', entities: ['PERSON'], score_threshold: 0.6 })
})

test('services: presidio: spans of one text and of several', () => {
  assert.deepEqual(partsOf(readingOf(PRESIDIO, [LICENSE], PERSON_AND_LICENSE), [LICENSE]), [
    ['John Smith', 'PERSON'],
    ['AC432223', 'US_DRIVER_LICENSE'],
  ])
  const all = ['hello', LICENSE]
  assert.deepEqual(partsOf(readingOf(PRESIDIO, all, [[], PERSON_AND_LICENSE]), all), [
    ['John Smith', 'PERSON'],
    ['AC432223', 'US_DRIVER_LICENSE'],
  ])
  assert.deepEqual(labelsOf(readingOf(PRESIDIO, ['hello'], [])), ['allow'])
})

// sgasser/pasteguard#145: offsets of code points used as those of UTF-16 mask a wrong part, and cut surrogate pairs.
test('property: presidio: offsets in code points become those in UTF-16', () => {
  const piece = fc.string({ unit: fc.constantFrom('a', 'é', '😀', '👩‍💻', '中', '\n') })
  fc.assert(
    fc.property(piece, piece, piece, (before, within, after) => {
      fc.pre(within !== '')
      const points = (text: string) => [...text].length
      const text = before + within + after
      const result = { entity_type: 'X', start: points(before), end: points(before) + points(within), score: 1 }
      assert.deepEqual(partsOf(readingOf(PRESIDIO, [text], [result]), [text]), [[within, 'X']])
      const beyond = { ...result, end: points(text) + 1 }
      assert.ok('wrong' in readingOf(PRESIDIO, [text], [beyond]))
    }),
  )
})

test('services: presidio: any other shape is wrong', () => {
  const result = { entity_type: 'X', start: 0, end: 1, score: 1 }
  assertWrong(
    PRESIDIO,
    ['abc'],
    [
      {},
      { error: 'No text provided' },
      [[]],
      [{ ...result, entity_type: 7 }],
      [{ ...result, start: -1 }],
      [{ ...result, start: 1 }],
      [{ ...result, end: 1.5 }],
      [{ ...result, end: '1' }],
    ],
  )
  assertWrong(PRESIDIO, ['a', 'b'], [[], [[]], [[], [], []], [[], {}], [result]])
})

// ── Bedrock ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The shape of API_runtime_ApplyGuardrail; the values are of BerriAI/litellm `tests/…/test_bedrock_guardrails.py`. */
const PHONE = {
  action: 'GUARDRAIL_INTERVENED',
  actionReason: 'Guardrail masked.',
  outputs: [{ text: 'Hello, my phone number is {PHONE}' }],
  assessments: [
    {
      invocationMetrics: {
        guardrailCoverage: { textCharacters: { guarded: 84, total: 84 } },
        guardrailProcessingLatency: 322,
        usage: { contentPolicyUnits: 0, sensitiveInformationPolicyUnits: 1, topicPolicyUnits: 0, wordPolicyUnits: 0 },
      },
      sensitiveInformationPolicy: {
        piiEntities: [{ type: 'PHONE', match: '+1 412 555 1212', action: 'ANONYMIZED', detected: true }],
        regexes: [],
      },
    },
  ],
}
const TOPIC = {
  usage: { topicPolicyUnits: 1, contentPolicyUnits: 1, wordPolicyUnits: 1, sensitiveInformationPolicyUnits: 1 },
  action: 'GUARDRAIL_INTERVENED',
  outputs: [{ text: "I can't provide that information." }],
  assessments: [{ topicPolicy: { topics: [{ name: 'Sensitive Topic', type: 'DENY', action: 'BLOCKED' }] } }],
}
const SAID = 'Hello, my phone number is +1 412 555 1212'

test('services: bedrock receives a block for each text', () => {
  const [call] = serviceCalls(BEDROCK, asked('a', 'b'))
  assert.equal(call?.path, '/guardrail/gr1abc/version/DRAFT/apply')
  assert.deepEqual(call?.body, { source: 'INPUT', content: [{ text: { text: 'a' } }, { text: { text: 'b' } }] })
  const [answer] = serviceCalls(BEDROCK, { ...asked('a'), phase: 'answer' })
  assert.equal(answer?.body.source, 'OUTPUT')
  const arn = 'arn:aws:bedrock:eu-west-1:111122223333:guardrail/gr1abc'
  const [named] = serviceCalls({ ...BEDROCK, guardrail: arn, version: '1' }, asked('a'))
  assert.equal(named?.path, `/guardrail/${encodeURIComponent(arn)}/version/1/apply`)
})

// agentgateway/agentgateway#1607: an anonymized text was sent unchanged.
test('services: bedrock masks what is anonymized, so that it can be restored', () => {
  assert.deepEqual(partsOf(readingOf(BEDROCK, [SAID], PHONE), [SAID]), [['+1 412 555 1212', 'PHONE']])
  const output = { ...PHONE, outputs: [{ text: 'Hello, my number is {PHONE}' }] }
  assert.deepEqual(partsOf(readingOf(BEDROCK, [SAID], output), [SAID]), [
    [SAID, { replacement: 'Hello, my number is {PHONE}' }],
  ])
  const unnamed = structuredClone(PHONE)
  Object.assign(unnamed.assessments[0]?.sensitiveInformationPolicy ?? {}, {
    piiEntities: [{ type: 'PHONE', action: 'ANONYMIZED' }],
  })
  assert.deepEqual(partsOf(readingOf(BEDROCK, [SAID], unnamed), [SAID]), [
    [SAID, { replacement: 'Hello, my phone number is {PHONE}' }],
  ])
})

test('services: bedrock blocks what is blocked, and names policies only', () => {
  assert.deepEqual(labelsOf(readingOf(BEDROCK, [SAID], TOPIC)), ['block', 'Sensitive-Topic'])
  const both = { ...PHONE, assessments: [...PHONE.assessments, ...TOPIC.assessments] }
  assert.deepEqual(labelsOf(readingOf(BEDROCK, [SAID], both)), ['block', 'PHONE', 'Sensitive-Topic'])
  const word = [{ wordPolicy: { customWords: [{ match: 'darn', action: 'BLOCKED' }], managedWordLists: [] } }]
  assert.deepEqual(labelsOf(readingOf(BEDROCK, [SAID], { ...TOPIC, assessments: word })), ['block', 'word'])
  // An intervention without a reason.
  assert.deepEqual(labelsOf(readingOf(BEDROCK, [SAID], { ...TOPIC, assessments: [{}] })), ['block'])
  // Detected, and configured to do nothing.
  const none = { ...PHONE, action: 'NONE', outputs: [] }
  assert.deepEqual(labelsOf(readingOf(BEDROCK, [SAID], none)), ['allow'])
})

test('services: bedrock: any other shape is wrong, also outputs of another number', () => {
  assertWrong(
    BEDROCK,
    [SAID],
    [
      {},
      [],
      { message: 'x' },
      { action: 'INTERVENED' },
      { ...PHONE, outputs: [] },
      { ...PHONE, outputs: [...PHONE.outputs, ...PHONE.outputs] },
      { ...PHONE, outputs: [{}] },
      { ...PHONE, outputs: [{ text: SAID }] },
    ],
  )
})

test('services: bedrock: a text above the quota is divided, and its parts are masked where they are', () => {
  const word = 'lorem ipsum 😀 '
  const text = `${word.repeat(3_000)}\n${SAID}\n${'x'.repeat(60_001)}${'😀'.repeat(20_000)}`
  const calls = serviceCalls(BEDROCK, asked('short', text))
  const sent = calls.flatMap(({ body }) => body.content as { text: { text: string } }[]).map((one) => one.text.text)
  assert.equal(sent.join(''), `short${text}`)
  assert.ok(sent.every((one) => one.length <= 25_000 && one.isWellFormed()))
  const readings = calls.map(({ body, read }) => {
    const own = (body.content as { text: { text: string } }[]).map((one) => one.text.text)
    if (!own.some((one) => one.includes(SAID))) return read({ action: 'NONE', outputs: [], assessments: [] })
    return read({ ...PHONE, outputs: own.map((one) => ({ text: one.replace('+1 412 555 1212', '{PHONE}') })) })
  })
  assert.deepEqual(partsOf(joined(readings), ['short', text]), [['+1 412 555 1212', 'PHONE']])
})

// ── Shared ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('services: the strictest of several findings decides, and one that is wrong spoils all', () => {
  const allow = readingOf(HEADGATE, ['a'], { action: 'allow' })
  const flag = readingOf(HEADGATE, ['a'], { action: 'flag', labels: ['a'] })
  const block = readingOf(HEADGATE, ['a'], { action: 'block', labels: ['b'] })
  assert.deepEqual(labelsOf(joined([allow, flag])), ['flag', 'a'])
  assert.deepEqual(labelsOf(joined([block, flag, allow])), ['block', 'b', 'a'])
  assert.deepEqual(joined([allow, { wrong: 'x' }, block]), { wrong: 'x' })
  assert.deepEqual(labelsOf(joined([])), ['allow'])
})

test('services: names of categories cannot carry texts', () => {
  assert.equal(labelName('ann@example.com said:\r\nhello'), 'ann-example.com-said-hello')
  assert.equal(labelName('x'.repeat(500)).length, 40)
  assert.deepEqual(['US_SSN', 'EMAIL_ADDRESS', 'Person', '4711', 'ß'].map(maskLabel), [
    ...['USSSN', 'EMAILADDRESS', 'PERSON', 'TEXT', 'SS'],
  ])
})

test('property: batches contain each text once, in order and within the limits', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 30 })), (all) => {
      const made = batches(texts(...all), { count: 3, characters: 40 })
      assert.deepEqual(made.flat(), [...all.keys()])
      for (const batch of made) {
        assert.ok(batch.length <= 3)
        assert.ok(batch.length === 1 || batch.reduce((sum, i) => sum + (all[i]?.length ?? 0), 0) <= 40)
      }
    }),
  )
})
