/** Small readers of text of unknown origin: waits, JSON, paths, configurations; and what keeps secrets in. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { fail } from '../../../src/core/failure.ts'
import { isList, isObject, type Json, type JsonObject, object, parseJson, sourceOf } from '../../../src/core/json.ts'
import { excess, rewrite, survey } from '../../../src/core/json-text.ts'
import { Secret } from '../../../src/core/secret.ts'
import { run } from '../../../src/core/stage.ts'
import { lines, load } from '../../../src/edge/config/testing.ts'
import { findRoute, isModelPath, protocolAt, ROUTES } from '../../../src/edge/http/app/routes.ts'
import { masking } from '../../../src/edge/identity/mask.ts'
import { redactKey } from '../../../src/gateway/upstream/redact.ts'
import { accessProblem } from '../../../src/policy/access.ts'
import { quotaIn, scarcestLimit } from '../../../src/policy/health/quota.ts'
import { bypassesSharing, canonicalJson, hasDuplicateMembers, keyProblem } from '../../../src/policy/idempotency-key.ts'
import { LIMIT_HEADERS } from '../../../src/policy/retry/limit-headers.ts'
import { parseDuration, retryAfter } from '../../../src/policy/retry/retry-after.ts'
import { changed, changedJson, slicings, type Target } from '../engine.ts'
import { ERRORS, REQUESTS } from '../seeds.ts'

// ── Waits ────────────────────────────────────────────────────────────────────────────────────────────────────────

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

/** The same rule as a regular expression and a table. */
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
  holds:
    'a wait is within an hour or not said; a duration is what an independent rule says; limits are shares with an end',
  seeds: WAITS,
  made: fc
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
        const headers = (asked: string) => (asked === name ? text : others === '' ? undefined : others)
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
  holds: 'whatever an error’s body is, a wait is within an hour or not said',
  seeds: ERRORS.map((body) => JSON.stringify(body)),
  made: changedJson(ERRORS),
  check(input) {
    const body = parsed(input.toString('utf8'))
    if (body === undefined) return
    const ms = retryAfter(() => undefined, body, NOW)
    assert.ok(ms === undefined || (ms >= 0 && ms <= HOUR), String(ms))
  },
}

// ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** As JSON.parse has it; undefined where it throws. */
const plain = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    // What is asked.
    return undefined
  }
}

const parsed = (text: string): Json | undefined => {
  try {
    // What parseJson gives is JSON.
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
  holds:
    'parseJson takes and gives what JSON.parse does and loses no digit; survey finds its members, rewrite changes only what differs',
  seeds: [...Object.values(REQUESTS).flat(), ...ERRORS].map((body) => JSON.stringify(body)),
  made: fc.oneof(
    jsonBytes,
    someObject,
    changed(['{"model":"m","stream":true,"n":9007199254740993,"x":[1,{"y":null}]}']),
  ),
  check(input) {
    const text = input.toString('utf8')
    const theirs = plain(text)
    const ours = parsed(text)
    assert.equal(ours === undefined, theirs === undefined, 'one takes it and the other does not')
    excess(text, { levels: 40, members: 50, membersInAll: 1_000, values: 1_000 })
    if (ours === undefined) return
    const written = JSON.stringify(ours)
    if (finite(theirs)) assert.deepEqual(JSON.parse(written), JSON.parse(JSON.stringify(theirs)))
    // Every integer as it was written: the digits of both texts are the same.
    const digits = (source: string) => source.match(/(?<![\d.eE+-])-?\d{17,}(?![\d.eE])/g) ?? []
    if (!text.includes('"')) assert.deepEqual(digits(written), digits(text.replaceAll(/\s/g, '')))
    const found = excess(text, { levels: 40, members: 50, membersInAll: 1_000, values: 1_000 })
    if (found === 'too-deep') assert.ok(levels(theirs) > 40)
    // Doubled names count as often as they are written.
    else if (found === null) assert.ok(levels(theirs) <= 41 && fullest(theirs) <= 50)
    const body = object(ours)
    if (!body) return
    surveyed(text, body)
  },
}

const surveyed = (text: string, body: JsonObject): void => {
  const seen = survey(text, 64)
  if (!seen.ok) {
    if (seen.problem === 'too-deep') assert.ok(levels(JSON.parse(text)) > 64)
    if (seen.problem === 'duplicate') assert.ok(['model', 'stream'].includes(seen.at))
    if (seen.problem === 'not-finite') assert.ok(/\d/.test(text))
    return
  }
  assert.ok(levels(JSON.parse(text)) <= 64)
  // Later ones count, as in JSON.parse.
  const last = new Map<string, Json>()
  for (const { key, start, value, end } of seen.members) {
    assert.ok(text.slice(start, value).trimEnd().endsWith(':'), key)
    const one = parsed(text.slice(value, end))
    assert.notEqual(one, undefined, key)
    last.set(key, one ?? null)
  }
  assert.deepEqual([...last.keys()].toSorted(), Object.keys(body).toSorted())
  for (const [key, value] of last) assert.equal(canonicalJson(value), canonicalJson(body[key]), key)
  assert.equal(rewrite(text, seen.members, body, body), text)
  if (last.size < seen.members.length) return
  const after: JsonObject = { ...body, added: 1 }
  assert.equal(canonicalJson(parsed(rewrite(text, seen.members, body, after))), canonicalJson(after))
  for (const key of last.keys()) {
    const { [key]: _, ...without } = body
    assert.equal(canonicalJson(parsed(rewrite(text, seen.members, body, without))), canonicalJson(without))
    const other: JsonObject = { ...body, [key]: 'other' }
    assert.equal(canonicalJson(parsed(rewrite(text, seen.members, body, other))), canonicalJson(other))
  }
}

// ── Equal requests ───────────────────────────────────────────────────────────────────────────────────────────────

/** Equal as JSON: objects without order, integers digit by digit. */
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
  holds: 'two requests have one canonical text exactly if they say the same; a member given twice is found',
  seeds: [
    '{"a":1,"b":[1,2]}\n{"b":[1,2],"a":1}',
    '{"a":"\\u0061"}\n{"a":"a"}',
    '9007199254740993\n9007199254740992',
    '[1]\n"[1]"',
    '{}\n[]',
  ],
  made: fc
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
      assert.equal(found, written > count(one), 'a member that is given twice')
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

/** Which path of the table a path is, by a plain comparison of steps; parameters take anything that is not empty. */
const served = (path: string): string | undefined => {
  const steps = (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path).split('/')
  const rows = Object.values(ROUTES).flatMap(({ path: row }) => (row.startsWith('/v1/') ? [row, row.slice(3)] : [row]))
  // A model's name may have slashes in it.
  const fits = (row: string): boolean => {
    const [front = '', back] = row.split('{id}')
    const whole = steps.join('/')
    if (back === undefined) return whole === row
    return whole.startsWith(front) && whole.endsWith(back) && whole.length > front.length + back.length
  }
  return rows.filter(fits).toSorted((a, b) => rank(b) - rank(a))[0]
}
/** Exact ones first, then those that say more behind their parameter. */
const rank = (row: string): number => (row.includes('{id}') ? (row.split('{id}')[1]?.length ?? 0) : 1_000)

const routes: Target = {
  name: 'routes',
  holds: 'one lookup decides who may and who answers; no path in another spelling is a route; errors have a format',
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
  made: fc
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
    const door = { loopback: true, keyed: false, port: 1, hosts: [], origins: [] }
    const refused = accessProblem({ method: 'GET', target, host: ['localhost'] }, door)
    const path = target.split('?', 1)[0] ?? ''
    if (refused === null) assert.ok(path.startsWith('/') && !path.startsWith('//'))
    const found = findRoute(path)
    protocolAt(path)
    if ('kind' in found) {
      assert.ok(found.kind === 'unknown_url' || served(path) !== undefined, 'a route that is not served')
      assert.notEqual(found.message, '')
      return
    }
    const row = served(path)
    assert.ok(
      found.routes.some((route) => route.path === row || route.path === `/v1${row}`),
      `${path} is ${row}`,
    )
    // Who may is asked of the same row that answers.
    assert.equal(new Set(found.routes.map(({ access }) => access)).size, 1)
    if (isModelPath(path)) assert.ok(found.routes.some(({ model }) => model))
  },
}

// ── Configurations ───────────────────────────────────────────────────────────────────────────────────────────────

/** Written where secrets are, and looked for where none may be. */
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
  holds:
    'any file and any environment is a configuration or a list of what is wrong, each with its place; no key is in it',
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

/** The values of places where only keys stand, whatever else is wrong. */
const configSecrets: Target = {
  name: 'config-secrets',
  holds: 'a key in its place is in no problem and no warning, whatever is wrong elsewhere',
  seeds: [
    '',
    'circuit: { timeout: no }',
    'routes: { x: { targets: [nobody/x] } }',
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
    const said = [...(result.ok ? [] : lines({ env, yaml })), ...result.warnings]
    // A change may quote what the file says as it says it, but never what is said beside it.
    if (!more.includes('canary')) for (const line of said) assert.ok(!line.includes(CANARY), line)
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

/** Every eight characters of what must not be seen. */
const RUNS = Array.from({ length: KEY.length - 8 - 7 }, (_, at) =>
  KEY.slice(4, -4)
    .slice(at, at + 8)
    .toLowerCase(),
).filter((one) => one.length === 8)

const redactor: Target = {
  name: 'redactor',
  holds: 'a key that an upstream quotes is taken out wherever it stands and however it is sliced',
  seeds: FORMS.flatMap((form) => [
    `Incorrect API key provided: ${form}.`,
    form,
    `${form}${form}`,
    `{"error":"${form}"}`,
  ]),
  made: fc
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
    for (const said of [message, param, ...Object.values(upstream ?? {})])
      for (const one of RUNS) assert.ok(!String(said).toLowerCase().includes(one), `${one} in ${said}`)
    // Bytes of an answer, with what a call was signed in with.
    const secrets = [KEY, 'AKIA-another-secret', 'short']
    const whole = Buffer.concat(run(masking(secrets), [input])).toString('latin1')
    for (const secret of secrets.slice(0, 2)) assert.ok(!whole.includes(secret))
    for (const pieces of slicings(input))
      assert.equal(Buffer.concat(run(masking(secrets), pieces)).toString('latin1'), whole)
  },
}

export const TEXTS: readonly Target[] = [wait, waitBody, json, sharing, routes, config, configSecrets, redactor]
