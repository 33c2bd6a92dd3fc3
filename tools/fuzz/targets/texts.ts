/** Parsers of short untrusted texts: retry times, JSON, paths, configurations; and the removal of secrets. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { fail } from '../../../src/core/failure.ts'
import { isList, isObject, type Json, type JsonObject, object, parseJson, sourceOf } from '../../../src/core/json.ts'
import { excess, rewrite, survey } from '../../../src/core/json-text.ts'
import { Secret } from '../../../src/core/secret.ts'
import { run } from '../../../src/core/stage.ts'
import { redactKey } from '../../../src/gateway/upstream/redact.ts'
import { accessProblem } from '../../../src/policy/access.ts'
import { quotaIn, scarcestLimit } from '../../../src/policy/health/quota.ts'
import { bypassesSharing, canonicalJson, hasDuplicateMembers, keyProblem } from '../../../src/policy/idempotency-key.ts'
import { LIMIT_HEADERS } from '../../../src/policy/retry/limit-headers.ts'
import { parseDuration, retryAfter } from '../../../src/policy/retry/retry-after.ts'
import { findRoute, isModelPath, protocolAt, ROUTES } from '../../../src/server/routes.ts'
import { masking } from '../../../src/transport/identity/mask.ts'
import { lines, load } from '../../../test/support/config.ts'
import { changed, changedJson, slicings, type Target } from '../engine.ts'
import { ERRORS, REQUESTS } from '../seeds.ts'

// ── Retry times ────────────────────────────────────────────────────────────────────────────────────────────────────────

const NOW = Date.UTC(2026, 10, 21, 12, 0, 0)
const HOUR = 3_600_000

const WAITS = [
  '20',
  '0.5',
  '6m0s',
  '1h2m3.5s',
  '12ms',
  '34.07s',
  'Sat, 21 Nov 2026 12:00:30 GMT',
  'Saturday, 21-Nov-26 12:00:30 GMT',
  'Sat Nov 21 12:00:30 2026',
  '2026-11-21T12:00:30.123Z',
  '2026-11-21T12:00:30+01:00',
  '1795262430',
  '1795262430123',
  '5µs',
]

/** Reference implementation: a regular expression and a table. */
const duration = (text: string): number | undefined => {
  const value = text.trim()
  if (text.length > 64 || !/^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+$/.test(value)) return undefined
  const units: Record<string, number> = {
    ns: 1e-6,
    us: 1e-3,
    µs: 1e-3,
    ms: 1,
    s: 1_000,
    m: 60_000,
    h: HOUR,
    d: 24 * HOUR,
  }
  let total = 0
  for (const [, figure, unit = ''] of value.matchAll(/([\d.]+)(\D+)/g))
    total += Number(figure) * (units[unit] ?? Number.NaN)
  return total
}

const wait: Target = {
  name: 'wait',
  property:
    'a retry time is at most an hour or undefined; a duration equals the reference; limits are shares with an end',
  seeds: WAITS,
  generated: fc
    .array(
      fc.oneof(
        fc.constantFrom('1', '07', '.5', '2.', '3.25', '1e3', '-1'),
        fc.constantFrom('s', 'ms', 'm', 'h', 'µs', ' ', 'x'),
      ),
      { maxLength: 8 },
    )
    .map((parts) => Buffer.from(parts.join(''))),
  check(input) {
    const text = input.toString('utf8')
    assert.equal(parseDuration(text), text.trim() === '' ? undefined : duration(text))
    const names = ['retry-after', 'retry-after-ms', 'x-ms-retry-after-ms', ...LIMIT_HEADERS.map(({ reset }) => reset)]
    for (const name of names)
      for (const others of ['', '0', '5']) {
        const headers = (header: string) => (header === name ? text : others === '' ? undefined : others)
        const ms = retryAfter(headers, undefined, NOW)
        assert.ok(ms === undefined || (ms >= 0 && ms <= HOUR), `${name}: ${ms}`)
        const quota = quotaIn(headers, 1_000, NOW)
        for (const { share, until } of quota ?? []) {
          assert.ok(share >= 0 && share <= 1, `a share of ${share}`)
          assert.ok(Number.isFinite(until) && until <= 1_000 + 24 * HOUR, `until ${until}`)
        }
        if (quota) scarcestLimit(quota, 1_000)
      }
  },
}

const waitBody: Target = {
  name: 'wait-body',
  property: 'for any error body a retry time is at most an hour or undefined',
  seeds: ERRORS.map((body) => JSON.stringify(body)),
  generated: changedJson(ERRORS),
  check(input) {
    const body = parsed(input.toString('utf8'))
    if (body === undefined) return
    const ms = retryAfter(() => undefined, body, NOW)
    assert.ok(ms === undefined || (ms >= 0 && ms <= HOUR), String(ms))
  },
}

// ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The result of JSON.parse; undefined if it throws. */
const plain = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    // Invalid.
    return undefined
  }
}

const parsed = (text: string): Json | undefined => {
  try {
    // parseJson returns JSON.
    return parseJson(text) as Json
  } catch (error) {
    assert.ok(error instanceof SyntaxError)
    return undefined
  }
}

const finite = (value: unknown): boolean => {
  if (typeof value === 'number') return Number.isFinite(value)
  if (isList(value)) return value.every(finite)
  return !isObject(value) || Object.values(value).every(finite)
}

const levels = (value: unknown): number => {
  const inner = isList(value) ? value : isObject(value) ? Object.values(value) : undefined
  return inner === undefined ? 0 : 1 + Math.max(0, ...inner.map(levels))
}

const fullest = (value: unknown): number => {
  const inner = isList(value) ? value : isObject(value) ? Object.values(value) : []
  return Math.max(isObject(value) ? inner.length : 0, ...inner.map(fullest), 0)
}

const number = fc.constantFrom(
  '0',
  '-0',
  '1',
  '1.50',
  '-12',
  '1e3',
  '1E-2',
  '9007199254740993',
  '-123456789012345678901',
  '1e400',
  '0.1000000000000000055',
)
const name = fc.constantFrom('"a"', '"b"', '"model"', '"stream"', '"\\u0061"', '"__proto__"', '"x:y,{}"', '"\\"q\\\\"')
const blank = fc.constantFrom('', '', ' ', '\n', '\t\r ')
const { value: jsonText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    number,
    fc.constantFrom('null', 'true', '"x"', '"é😀\\n"', '"a\\\\"', '""', '"{[:,"'),
    fc
      .tuple(blank, fc.array(tie('value'), { maxLength: 3 }))
      .map(([space, all]) => `[${space}${all.join(`${space},`)}]`),
    fc
      .tuple(blank, fc.array(fc.tuple(name, tie('value')), { maxLength: 4 }))
      .map(
        ([space, all]) =>
          `{${space}${all.map(([key, value]) => `${key}${space}:${space}${value}`).join(`${space},`)}${space}}`,
      ),
  ),
}))
const jsonBytes = fc.tuple(blank, jsonText).map(([space, text]) => Buffer.from(space + text + space))
const someObject = fc
  .array(fc.tuple(name, jsonText), { maxLength: 5 })
  .map((all) => Buffer.from(`{${all.map(([key, value]) => `${key}: ${value}`).join(' ,')} }`))

const json: Target = {
  name: 'json',
  property:
    'parseJson accepts and returns the same as JSON.parse and loses no digit; survey finds all members, rewrite changes only different ones',
  seeds: [...Object.values(REQUESTS).flat(), ...ERRORS].map((body) => JSON.stringify(body)),
  generated: fc.oneof(
    jsonBytes,
    someObject,
    changed(['{"model":"m","stream":true,"n":9007199254740993,"x":[1,{"y":null}]}']),
  ),
  check(input) {
    const text = input.toString('utf8')
    const theirs = plain(text)
    const ours = parsed(text)
    assert.equal(ours === undefined, theirs === undefined, 'one accepts it and the other does not')
    excess(text, { levels: 40, members: 50, membersInAll: 1_000, values: 1_000 })
    if (ours === undefined) return
    const written = JSON.stringify(ours)
    if (finite(theirs)) assert.deepEqual(JSON.parse(written), JSON.parse(JSON.stringify(theirs)))
    // Integers are unchanged: both texts have the same digits.
    const digits = (source: string) => source.match(/(?<![\d.eE+-])-?\d{17,}(?![\d.eE])/g) ?? []
    if (!text.includes('"')) assert.deepEqual(digits(written), digits(text.replaceAll(/\s/g, '')))
    const found = excess(text, { levels: 40, members: 50, membersInAll: 1_000, values: 1_000 })
    if (found === 'too-deep') assert.ok(levels(theirs) > 40)
    // Duplicate names count each time.
    else if (found === null) assert.ok(levels(theirs) <= 41 && fullest(theirs) <= 50)
    const body = object(ours)
    if (!body) return
    checkSurvey(text, body)
  },
}

const checkSurvey = (text: string, body: JsonObject): void => {
  const seen = survey(text, 64)
  if (!seen.ok) {
    if (seen.problem === 'too-deep') assert.ok(levels(JSON.parse(text)) > 64)
    if (seen.problem === 'duplicate') assert.ok(['model', 'stream'].includes(seen.at))
    if (seen.problem === 'not-finite') assert.ok(/\d/.test(text))
    return
  }
  assert.ok(levels(JSON.parse(text)) <= 64)
  // The last duplicate wins, as in JSON.parse.
  const last = new Map<string, Json>()
  for (const { key, start, value, end } of seen.members) {
    assert.ok(text.slice(start, value).trimEnd().endsWith(':'), key)
    const one = parsed(text.slice(value, end))
    assert.notEqual(one, undefined, key)
    last.set(key, one ?? null)
  }
  assert.deepEqual([...last.keys()].toSorted(), Object.keys(body).toSorted())
  for (const [key, value] of last) assert.equal(canonicalJson(value), canonicalJson(body[key]), key)
  const rewritten = (after: JsonObject) => rewrite({ text }, seen.members, body, after).text
  assert.equal(rewritten(body), text)
  if (last.size < seen.members.length) return
  const after: JsonObject = { ...body, added: 1 }
  assert.equal(canonicalJson(parsed(rewritten(after))), canonicalJson(after))
  for (const key of last.keys()) {
    const { [key]: _, ...without } = body
    assert.equal(canonicalJson(parsed(rewritten(without))), canonicalJson(without))
    const other: JsonObject = { ...body, [key]: 'other' }
    assert.equal(canonicalJson(parsed(rewritten(other))), canonicalJson(other))
  }
}

// ── Equal requests ───────────────────────────────────────────────────────────────────────────────────────────────

/** JSON equality: members in any order, integers digit by digit. */
const equal = (a: Json | undefined, b: Json | undefined): boolean => {
  const [rawA, rawB] = [sourceOf(a), sourceOf(b)]
  if (rawA !== undefined || rawB !== undefined) return rawA === rawB
  if (isList(a)) return isList(b) && a.length === b.length && a.every((item, at) => equal(item, b[at]))
  if (isObject(a)) {
    if (!isObject(b)) return false
    const [left, right] = [Object.keys(a), Object.keys(b)]
    return left.length === right.length && left.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]))
  }
  return a === b
}

const sharing: Target = {
  name: 'sharing',
  property: 'two requests have the same canonical text exactly if they are equal; duplicate members are found',
  seeds: [
    '{"a":1,"b":[1,2]}\n{"b":[1,2],"a":1}',
    '{"a":"\\u0061"}\n{"a":"a"}',
    '9007199254740993\n9007199254740992',
    '[1]\n"[1]"',
    '{}\n[]',
  ],
  generated: fc
    .tuple(jsonText, jsonText, fc.boolean())
    .map(([a, b, same]) => Buffer.from(`${a.replaceAll(/[\n\r]/g, ' ')}\n${same ? a : b}`)),
  check(input) {
    const text = input.toString('utf8')
    keyProblem(text)
    bypassesSharing(text)
    const cut = text.indexOf('\n')
    const [a, b] = [parsed(text.slice(0, cut)), parsed(text.slice(cut + 1))]
    for (const [one, source] of [
      [a, text.slice(0, cut)],
      [b, text.slice(cut + 1)],
    ] as const) {
      if (!isObject(one)) continue
      const found = hasDuplicateMembers(source, one)
      const written = (source.replaceAll(/"(?:[^"\\]|\\.)*"/g, '').match(/:/g) ?? []).length
      assert.equal(found, written > count(one), 'a duplicate member')
    }
    if (a === undefined || b === undefined || !finite(a) || !finite(b)) return
    assert.equal(canonicalJson(a) === canonicalJson(b), equal(a, b), `${canonicalJson(a)} and ${canonicalJson(b)}`)
  },
}

const count = (value: Json | undefined): number => {
  if (isList(value)) return value.reduce<number>((sum, item) => sum + count(item), 0)
  return isObject(value) ? Object.values(value).reduce<number>((sum, item) => sum + 1 + count(item), 0) : 0
}

// ── Paths ────────────────────────────────────────────────────────────────────────────────────────────────────────

const PATHS = Object.values(ROUTES).map(({ path }) => path.replace('{id}', 'resp_1'))

/** Reference lookup: the row of the route table for a path. A parameter matches anything that is not empty. */
const served = (path: string): string | undefined => {
  const steps = (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path).split('/')
  const rows = Object.values(ROUTES).flatMap(({ path: row }) => (row.startsWith('/v1/') ? [row, row.slice(3)] : [row]))
  // Model names may contain slashes.
  const fits = (row: string): boolean => {
    const [front = '', back] = row.split('{id}')
    const whole = steps.join('/')
    if (back === undefined) return whole === row
    return whole.startsWith(front) && whole.endsWith(back) && whole.length > front.length + back.length
  }
  return rows.filter(fits).toSorted((a, b) => rank(b) - rank(a))[0]
}
/** Exact rows first, then those with the longer text after the parameter. */
const rank = (row: string): number => (row.includes('{id}') ? (row.split('{id}')[1]?.length ?? 0) : 1_000)

const routes: Target = {
  name: 'routes',
  property: 'one lookup determines access and handler; no other spelling of a path is a route; errors have a format',
  seeds: [
    ...PATHS,
    ...PATHS.map((path) => path.replace('/v1', '')),
    '/v1/models/meta%2Fllama',
    '/v1/models/a/b',
    '//v1/models',
    '/v1/../health',
    '/V1/models',
    '/health/',
  ],
  generated: fc
    .array(
      fc.constantFrom(
        '/',
        '/v1',
        '/models',
        '/responses',
        '/health',
        '/..',
        '/.',
        '%2e',
        '%2F',
        '%',
        'x',
        '/cancel',
        '/input_items',
        '?',
        '\\',
        '%00',
        'é',
      ),
      { maxLength: 7 },
    )
    .map((parts) => Buffer.from(parts.join(''))),
  check(input) {
    const target = input.toString('latin1')
    const door = { loopback: true, keyed: false, port: 1, hosts: [], origins: [], exposed: '' }
    const refused = accessProblem({ method: 'GET', target, host: ['localhost'] }, door)
    const path = target.split('?', 1)[0] ?? ''
    if (refused === null) assert.ok(path.startsWith('/') && !path.startsWith('//'))
    const found = findRoute(path)
    protocolAt(path)
    if ('kind' in found) {
      assert.ok(found.kind === 'unknown_url' || served(path) !== undefined, 'a route without a row')
      assert.notEqual(found.message, '')
      return
    }
    const row = served(path)
    assert.ok(
      found.routes.some((route) => route.path === row || route.path === `/v1${row}`),
      `${path} is ${row}`,
    )
    // Access is that of the row that handles the request.
    assert.equal(new Set(found.routes.map(({ access }) => access)).size, 1)
    if (isModelPath(path)) assert.ok(found.routes.some(({ model }) => model))
  },
}

// ── Configurations ───────────────────────────────────────────────────────────────────────────────────────────────

/** Placed where secrets are, and searched for in all output. */
const CANARY = 'canary7f3a9b2e4d'

const YAML = `# as in the documentation
providers:
  openai:
    keys: [{ value: ${CANARY}, weight: 2 }, env:OTHER]
    models: [a, b]
  groq:
    key: ${CANARY}
    base_url: https://groq.example/v1
routes:
  fast:
    strategy: priority
    targets: [openai/a, { provider: groq, model: b, weight: 3 }]
    fallback: [groq]
settings:
circuit: { timeout: 20s, probes: 2 }
retry: { attempts: 3 }
auth: { keys: [${CANARY}] }
`
const DOTENV = `OPENAI_API_KEY=${CANARY}\nGROQ_API_KEY="${CANARY}"\nPORT=8080\nLOG_LEVEL=info\nCIRCUIT_TIMEOUT=30s\nPROVIDERS=openai,groq\nAUTH_KEYS=${CANARY}\n`

const config: Target = {
  name: 'config',
  property:
    'any file and environment gives a configuration or a list of problems with their places; no output contains a key',
  seeds: [`${DOTENV}\0${YAML}`, `PORT=1\0${YAML}`, `${DOTENV}\0`, `OPENAI_API_KEY=${CANARY}\n\0routes: {}\n`],
  check(input) {
    const [dotenv = '', ...rest] = input.toString('utf8').split('\0')
    const yaml = rest.join('\0')
    for (const given of [
      { env: {}, dotenv, yaml },
      { env: { OPENAI_API_KEY: CANARY, PORT: dotenv.slice(0, 20) }, yaml },
    ]) {
      const result = load(given)
      if (result.ok) assert.ok(Object.isFrozen(result.config))
      else {
        assert.ok(result.problems.length > 0)
        for (const { where, found, allowed } of result.problems) {
          assert.notEqual(where, '')
          assert.notEqual(found, '')
          assert.notEqual(allowed, '')
        }
        for (const line of lines(given)) assert.equal(line.split('\n').length, 1, line)
      }
    }
  },
}

/** Keys in their usual places, with other errors in the file. */
const configSecrets: Target = {
  name: 'config-secrets',
  property: 'no problem or warning contains a key, whatever else is wrong in the file',
  seeds: [
    '',
    'circuit: { timeout: no }',
    'routes: { x: { targets: [unknown/x] } }',
    'providers: { openai: { models: 3 } }',
    ': : :',
    'retry: [1]',
    'unknown: 1',
  ],
  check(input) {
    const more = input.toString('utf8')
    const env = {
      OPENAI_API_KEY: `${CANARY}-env`,
      GROQ_API_KEYS: `${CANARY}-a,${CANARY}-b`,
      AUTH_KEYS: `${CANARY}-auth`,
    }
    const yaml = `providers:\n  openai:\n    key: ${CANARY}-file\n${more}\n`
    const result = load({ env, yaml })
    const messages = [...(result.ok ? [] : lines({ env, yaml })), ...result.warnings]
    // A problem may quote the mutated text itself, but not the key above it.
    if (!more.includes('canary')) for (const line of messages) assert.ok(!line.includes(CANARY), line)
  },
}

// ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

const KEY = `sk-Zq8${'vTx4Lm2'}+/${'Rw9Kc7Yd3Hs'}`
const FORMS = [
  KEY,
  encodeURIComponent(KEY),
  Buffer.from(KEY).toString('base64'),
  Buffer.from(KEY).toString('hex'),
  JSON.stringify(`Bearer ${KEY}`),
  KEY.slice(2, -2),
  KEY.toUpperCase(),
]

/** Every eight consecutive characters of the key. */
const PARTS = Array.from({ length: KEY.length - 8 - 7 }, (_, at) =>
  KEY.slice(4, -4)
    .slice(at, at + 8)
    .toLowerCase(),
).filter((one) => one.length === 8)

const redactor: Target = {
  name: 'redactor',
  property: 'a key that an upstream quotes is removed at any place and with any division of the bytes',
  seeds: FORMS.flatMap((form) => [
    `Incorrect API key provided: ${form}.`,
    form,
    `${form}${form}`,
    `{"error":"${form}"}`,
  ]),
  generated: fc
    .array(
      fc.oneof(
        fc.constantFrom(...FORMS),
        fc.string({ maxLength: 10 }),
        fc.constantFrom('sk-', KEY.slice(0, 9), KEY.slice(5), 'é', 'ß', 'İ'),
      ),
      { maxLength: 7 },
    )
    .map((parts) => Buffer.from(parts.join(''))),
  check(input) {
    const text = input.toString('utf8')
    const {
      message,
      param = '',
      upstream,
    } = redactKey(fail('auth', text, { param: text, upstream: { message: text, code: text } }), {
      id: 'k',
      secret: new Secret(KEY),
      weight: 1,
    })
    for (const text of [message, param, ...Object.values(upstream ?? {})])
      for (const one of PARTS) assert.ok(!String(text).toLowerCase().includes(one), `${one} in ${text}`)
    // The bytes of a response, with the credentials of its call.
    const secrets = [KEY, 'AKIA-another-secret', 'short']
    const whole = Buffer.concat(run(masking(secrets), [input])).toString('latin1')
    for (const secret of secrets.slice(0, 2)) assert.ok(!whole.includes(secret))
    for (const pieces of slicings(input))
      assert.equal(Buffer.concat(run(masking(secrets), pieces)).toString('latin1'), whole)
  },
}

export const TEXTS: readonly Target[] = [wait, waitBody, json, sharing, routes, config, configSecrets, redactor]
