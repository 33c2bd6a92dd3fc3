/**
 * Live checks of the fallback drill against the strict fake vendors: what is broken on purpose is found and named, and what works is
 * never accused, however often a vendor is busy.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { Feature } from '../../src/policy/drill/features.ts'
import { dayCap } from '../../src/policy/drill/live-rules.ts'
import type { Shape } from '../../src/policy/drill/shape.ts'
import { respondWith } from '../support/gateway.ts'
import { openDrill, type Script, shapeWith } from './live-drill.ts'
import { VENDORS, type Vendor } from './vendors.ts'

/** One run of live checks of these shapes at a vendor. `broken`: answers a call instead of the vendor, and returns whether it did. */
const drill = async (vendor: Vendor, shapes: readonly Shape[], broken?: Script) => {
  const { live, world, candidate } = openDrill(vendor, { shapes, broken })
  const begun = await live.begin(null, null)
  assert.ok(begun.ok, JSON.stringify(begun))
  for (let waits = 0; live.state()?.ended === null && waits < 2_000; waits++) await world.advance(1_000)
  const state = live.state()
  assert.ok(state && state.ended !== null, 'the run has no end')
  return { of: (shape: Shape) => live.resultOf(shape, candidate), state, calls: world.calls }
}

/** What clients of a route send, in parts that real requests have together. */
const PARTS: readonly (readonly [readonly Feature[], Partial<Shape>])[] = [
  [['stream'], {}],
  [['set.temperature'], {}],
  [['tool.enum', 'tool.additionalProperties'], { tools: 8, depth: 3 }],
  [['history.calls', 'history.results'], { tools: 1, depth: 2 }],
  [['format.schema', 'schema.additionalProperties', 'schema.enum'], { depth: 3 }],
  [['image.data', 'image.png'], { media: 1 }],
  [['choice.required'], { tools: 1, depth: 2 }],
]

const seeded = (seed: number): (() => number) => {
  let state = (seed * 48_271 + 11) % 2_147_483_647
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

const someShapes = (random: () => number, more?: readonly [readonly Feature[], Partial<Shape>]): readonly Shape[] =>
  Array.from({ length: 1 + Math.floor(random() * 4) }, (_, at) => {
    const chosen = PARTS.filter(() => random() < 0.4)
    if (at === 0 && more) chosen.push(more)
    const most = (name: 'tools' | 'media' | 'depth') => Math.max(0, ...chosen.map(([, amounts]) => amounts[name] ?? 0))
    return shapeWith(
      chosen.flatMap(([features]) => features),
      { tools: most('tools'), media: most('media'), depth: most('depth') },
    )
  })

/** Vendors of chat completions whose fakes take all parts. */
const TAKERS = VENDORS.filter(({ name }) =>
  ['openai', 'openrouter', 'fireworks', 'anthropic', 'moonshot'].includes(name),
)

type Kind = {
  readonly kind: string
  readonly part: string
  readonly needs?: readonly [readonly Feature[], Partial<Shape>]
  /** What the vendor answers; undefined: it takes the body. */
  readonly refuses: (
    body: JsonObject,
    text: string,
  ) => readonly [status: number, message: string, code?: string] | 'tls' | undefined
}

const keyword = (name: string, prefix: 'tool' | 'schema' = 'tool'): Kind => ({
  kind: `${prefix} keyword ${name}`,
  part: `${prefix}.${name}`,
  needs:
    prefix === 'tool'
      ? [[`tool.${name}` as Feature], { tools: 8, depth: 2 }]
      : [['format.schema', 'schema.additionalProperties', `schema.${name}` as Feature], { depth: 2 }],
  refuses: (_, text) =>
    text.includes(`"${name}":`) ? [400, `Invalid schema: the keyword '${name}' is not permitted.`] : undefined,
})
const always = (kind: string, answered: ReturnType<Kind['refuses']>): Kind => ({
  kind,
  part: 'target',
  refuses: () => answered,
})
/** Levels of objects with properties in all tools, and the deepest leaf. */
const depthIn = (value: unknown): number => {
  if (Array.isArray(value)) return Math.max(0, ...value.map(depthIn))
  if (!isObject(value)) return 0
  const deepest = Math.max(0, ...Object.values(value).map(depthIn))
  return isObject(value.properties)
    ? deepest + 1
    : Math.max(deepest, 'type' in value && typeof value.type === 'string' ? 1 : 0)
}
const toolsIn = ({ tools }: JsonObject) => (Array.isArray(tools) ? tools.length : 0)

const KINDS: readonly Kind[] = [
  ...['pattern', 'minLength', 'oneOf', 'prefixItems', 'patternProperties', '$ref'].map((name) => keyword(name)),
  {
    kind: '32 tools',
    part: 'tools.128',
    needs: [[], { tools: 128, depth: 2 }],
    refuses: (body) =>
      toolsIn(body) > 32 ? [400, "Invalid 'tools': array too long. Expected at most 32."] : undefined,
  },
  {
    kind: '8 tools',
    part: 'tools.32',
    needs: [[], { tools: 32, depth: 2 }],
    refuses: (body) => (toolsIn(body) > 8 ? [400, 'Too many tools: 8 are supported.'] : undefined),
  },
  {
    kind: 'pictures',
    part: 'image.png',
    needs: [['image.data', 'image.png'], { media: 1 }],
    refuses: (_, text) =>
      text.includes('iVBORw0KGgo') ? [400, 'This model does not support image input.'] : undefined,
  },
  {
    kind: 'webp pictures',
    part: 'image.webp',
    needs: [['image.data', 'image.webp'], { media: 1 }],
    refuses: (_, text) =>
      text.includes('UklGRjoAAABXRUJQ') ? [400, 'Unsupported image type: image/webp.'] : undefined,
  },
  {
    kind: 'one picture',
    part: 'media.8',
    needs: [['image.data', 'image.png'], { media: 8 }],
    refuses: (_, text) => (text.split('iVBORw0KGgo').length > 2 ? [400, 'At most 1 image is supported.'] : undefined),
  },
  {
    kind: 'deep schemas',
    part: 'depth.7',
    needs: [[], { tools: 1, depth: 7 }],
    refuses: ({ tools }) => (depthIn(tools) > 6 ? [400, 'The schema is nested too deeply.'] : undefined),
  },
  {
    kind: 'structured output',
    part: 'format.schema',
    needs: [['format.schema', 'schema.additionalProperties'], { depth: 2 }],
    refuses: (_, text) =>
      text.includes('"json_schema"') ? [400, 'This model does not support structured outputs.'] : undefined,
  },
  always('no access to the model', [403, 'Your account does not have access to this model.', 'model_access_denied']),
  always('dead key', [401, 'Incorrect API key provided.', 'invalid_api_key']),
  always('no credit', [
    429,
    'You exceeded your current quota, please check your plan and billing details.',
    'insufficient_quota',
  ]),
  always('retired model', [404, 'The model does not exist or has been retired.', 'model_not_found']),
  always('wrong format', [404, 'Not Found']),
  always('certificate', 'tls'),
  always('account closed', [403, 'Your organization has been disabled.', 'account_deactivated']),
]

const errorOf = (vendor: Vendor, [status, message, code]: readonly [number, string, string?]): JsonObject =>
  vendor.speaks.messages
    ? { type: 'error', error: { type: CLAUDE[status] ?? 'invalid_request_error', message } }
    : { error: { message, type: code ?? 'invalid_request_error', param: null, code: code ?? null } }
const CLAUDE: { readonly [status: number]: string } = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
}

const refusing =
  (vendor: Vendor, { refuses }: Kind): Script =>
  (call) => {
    const text = call.body ?? ''
    const body: unknown = JSON.parse(text)
    const refused = isObject(body) ? refuses(body, text) : undefined
    if (refused === undefined) return false
    if (refused === 'tls') call.fail({ kind: 'tls', message: 'certificate has expired', unsent: true })
    else respondWith.json(call, refused[0], JSON.stringify(errorOf(vendor, refused)))
    return true
  }

test('live checks: of 200 seeded faults of 20 kinds at strict vendors, 95 % are found and named, and no other part is', async (context) => {
  assert.equal(KINDS.length, 20)
  const missed: string[] = []
  let [sent, most] = [0, 0]
  for (let seed = 0; seed < 200; seed++) {
    const kind = KINDS[seed % KINDS.length]
    assert.ok(kind)
    const random = seeded(seed + 1)
    const vendor = TAKERS[Math.floor(random() * TAKERS.length)]
    assert.ok(vendor)
    const shapes = someShapes(random, kind.needs)
    const { of, state, calls } = await drill(vendor, shapes, refusing(vendor, kind))
    sent += calls.length
    most = Math.max(most, calls.length)
    const found = shapes.map(of)
    const named = found.some((one) => one?.verdict === 'refused' && one.by === kind.part)
    if (!named) missed.push(`${kind.kind} at ${vendor.name}: ${JSON.stringify({ found, left: state.left })}`)
    for (const one of found)
      if (one?.verdict === 'refused' && one.by !== kind.part)
        missed.push(`${kind.kind} at ${vendor.name}: also ${one.by}`)
  }
  assert.ok(missed.length <= 10, `${missed.length} missed:\n${missed.join('\n')}`)
  context.diagnostic(`${200 - missed.length} of 200 named, ${sent} requests, at most ${most} for one`)
})

test('live checks: 1,000 sound set-ups with 5 % of 429, 5xx and stalls: none is accused, for 0.1 % of the spend', async (context) => {
  let [noisy, ready, cost] = [0, 0, 0]
  for (let seed = 0; seed < 1_000; seed++) {
    const random = seeded(seed + 5_000)
    const vendor = TAKERS[Math.floor(random() * TAKERS.length)]
    assert.ok(vendor)
    const shapes = someShapes(random)
    const { of, state } = await drill(vendor, shapes, (call) => {
      if (random() >= 0.05) return false
      noisy++
      const which = Math.floor(random() * 4)
      if (which === 0)
        respondWith.json(call, 429, '{"error":{"message":"Rate limit reached","type":"rate_limit_error"}}')
      else if (which === 1) respondWith.json(call, 500, '{"error":{"message":"Internal error","type":"server_error"}}')
      else if (which === 2)
        respondWith.json(call, 529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
      return true
    })
    for (const shape of shapes) {
      const found = of(shape)
      assert.notEqual(found?.verdict, 'refused', `${vendor.name}: ${JSON.stringify({ shape, found })}`)
      if (found?.verdict === 'ready') ready++
    }
    cost += state.spent
    assert.ok(state.spent <= dayCap('0.50', 7e12))
  }
  assert.ok(noisy > 50 && ready > 1_000, `${noisy} faults, ${ready} ready`)
  context.diagnostic(`${noisy} faults, ${ready} ready, $${(cost / 1e9).toFixed(4)} for 1,000 runs`)
})

test('live checks: a limit inside a step is unknown, and no shape is accused', async () => {
  const limit: Kind = {
    kind: '64 tools',
    part: 'tools.128',
    refuses: (body) => (toolsIn(body) > 64 ? [400, 'Expected at most 64 tools.'] : undefined),
  }
  const shape = shapeWith(['stream'], { tools: 128, depth: 2 })
  for (const vendor of TAKERS) {
    const { of } = await drill(vendor, [shape], refusing(vendor, limit))
    assert.deepEqual([of(shape)?.verdict, of(shape)?.by], ['doubt', limit.part], vendor.name)
  }
})

test('live checks: a model that reasons and has no room to answer is not accused', async () => {
  const message =
    'Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.'
  for (const vendor of TAKERS) {
    const shapes = [shapeWith(['stream']), shapeWith(['tool.enum'], { tools: 1, depth: 2 })]
    const { of, calls } = await drill(vendor, shapes, (call) => {
      respondWith.json(call, 400, JSON.stringify(errorOf(vendor, [400, message])))
      return true
    })
    assert.ok(calls.length > 0)
    for (const shape of shapes) assert.equal(of(shape)?.verdict, 'unsettled', vendor.name)
  }
})
