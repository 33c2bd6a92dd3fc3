/** Overrides of targets on the recorded requests of real clients: only the named members of the client's body change. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { clientRequests, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import { type ChatRequest, EFFORTS } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import type { Outcome } from '../../core/failure.ts'
import { type Json, type JsonObject, parseObject } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { OverrideName, TargetOverride } from '../../core/target-override.ts'
import { OVERRIDE_NAMES, overriddenSettings } from '../../policy/routing/override.ts'
import { clientProtocolByStyle, upstreamProtocols } from '../../protocols/index.ts'
import { type OutboundRequest, prepareRequest } from './outbound-request.ts'
import { parseRequest } from './parse-request.ts'

/** The members in which any style has a setting. */
const MEMBERS: { readonly [name in OverrideName]: readonly string[] } = {
  temperature: ['temperature'],
  topP: ['top_p'],
  topK: ['top_k'],
  // Anthropic's budget is part of it.
  maxOutputTokens: ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'thinking'],
  stop: ['stop', 'stop_sequences'],
  seed: ['seed'],
  effort: ['reasoning_effort', 'reasoning', 'output_config'],
  thinkingBudget: ['thinking'],
  verbosity: ['verbosity', 'text'],
  serviceTier: ['service_tier'],
  parallelToolCalls: ['parallel_tool_calls', 'tool_choice'],
  store: ['store'],
  user: ['user', 'metadata', 'safety_identifier'],
}

const VALUES: { readonly [name in OverrideName]: readonly Json[] } = {
  temperature: [0, 0.7, 1],
  topP: [0.1, 0.9],
  topK: [5, 40],
  maxOutputTokens: [64, 4_000, 60_000, { max: 100 }, { min: 5_000 }],
  stop: [['END'], ['a', 'b']],
  seed: [7],
  effort: [...EFFORTS, { max: 'low' }, { min: 'high' }],
  thinkingBudget: [0, 2_000, { max: 1_500 }],
  verbosity: ['low'],
  serviceTier: ['flex', 'priority'],
  parallelToolCalls: [false, true],
  store: [false],
  user: ['team-search'],
}

let state = 20_261_128
const below = (count: number): number => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * count)
}
const pick = <T>(all: readonly T[]): T => all[below(all.length)] ?? assert.fail()

const randomOverride = (): TargetOverride & { readonly names: readonly OverrideName[] } => {
  const names = new Set(Array.from({ length: 1 + below(3) }, () => pick(OVERRIDE_NAMES)))
  const set: Record<string, Json> = {}
  const defaults: Record<string, Json> = {}
  const remove: OverrideName[] = []
  for (const name of names) {
    const value = pick(VALUES[name])
    const how = below(5)
    if (how === 0) remove.push(name)
    else if (how === 1 && !(typeof value === 'object' && value !== null && !Array.isArray(value)))
      defaults[name] = value
    else set[name] = value
  }
  const extra = below(4) === 0 ? { x_vendor: { a: below(9) } } : undefined
  // The values are those of the table above, which the schema of the file would accept.
  return { set, default: defaults, remove, ...(extra && { extra }), names: [...names] } as ReturnType<
    typeof randomOverride
  >
}

/** The text of each outermost member. */
const membersIn = (source: string): ReadonlyMap<string, string> => {
  const surveyed = survey(source, 64)
  assert.ok(surveyed.ok)
  return new Map(surveyed.members.map(({ key, value, end }) => [key, source.slice(value, end)]))
}

const FACTS: ModelFacts = {
  capabilities: ['tools', 'vision', 'reasoning', 'structured_output'],
  maxOutputTokens: 64_000,
}

const OVERRIDES_EACH = 200

const styleOf = (path: string): string | undefined =>
  [...clientProtocolByStyle.values()].find((one) => path.endsWith(one.path) && one.passing)?.style

test('overrides: requests of real clients change in the named members only', { skip: skipWithoutRecordings }, () => {
  let runs = 0
  let changes = 0
  for (const { name, path, body, headers } of clientRequests()) {
    const protocol = clientProtocolByStyle.get(styleOf(path) ?? '')
    const upstream = protocol && Object.values(upstreamProtocols).find((one) => one.name === protocol.name)
    if (!protocol || !upstream) continue
    const source = JSON.stringify(body)
    const parsed = parseRequest(
      protocol,
      { body: { text: source }, headers: (one) => headers[one] },
      defaultSettings.limit,
    )
    if (!parsed.ok || parsed.value.reencode) continue
    const place = {
      instance: instance('a', ['k'], { speaks: [{ protocol: upstream.name }] }),
      model: 'm',
      because: '',
      weight: 1,
    }
    const plain = prepareRequest(parsed.value, place, FACTS)?.body.text ?? assert.fail(name)
    const before = membersIn(plain)
    for (let run = 0; run < OVERRIDES_EACH; run++) {
      const { names, ...override } = randomOverride()
      const prepared: OutboundRequest = prepareRequest(parsed.value, { ...place, override }, FACTS) ?? assert.fail(name)
      const sent = prepared.body.text
      const after = membersIn(sent)
      const about = JSON.stringify({ name, override, dropped: prepared.dropped })
      const mayChange = new Set(['x_vendor', ...names.flatMap((one) => MEMBERS[one])])
      for (const member of new Set([...before.keys(), ...after.keys()]))
        if (!mayChange.has(member)) assert.equal(after.get(member), before.get(member), `${member} ${about}`)
      const decoded: Outcome<ChatRequest> = protocol.decodeRequest(parseObject(sent) ?? {}, path)
      assert.ok(decoded.ok, `${decoded.ok || decoded.failure.message} ${about}`)
      const wanted = overriddenSettings(parsed.value.request.settings, override)
      for (const one of names) {
        const value = wanted[one]?.value
        const got: unknown = decoded.value.settings[one]?.value
        const isLost = prepared.dropped.some(
          (lost) => lost === wanted[one]?.at || lost === `set.${one}` || lost === `default.${one}`,
        )
        // Anthropic has no such level, parallel calls are the default, and a budget fits below the limit of the output.
        // Anthropic requires a limit.
        const isKept = one === 'maxOutputTokens' && value === undefined && protocol.style === 'messages'
        const isFitted =
          isKept ||
          value === 'minimal' ||
          (one === 'parallelToolCalls' && value === true) ||
          (one === 'thinkingBudget' && names.includes('maxOutputTokens'))
        if (JSON.stringify(got) === JSON.stringify(value)) changes++
        else if (!isFitted && !isLost)
          assert.fail(
            `${one} is ${JSON.stringify(got)}, not ${JSON.stringify(value)} ${about} ${[...mayChange].map((m) => `${m}=${after.get(m)}`)}`,
          )
      }
      assert.equal(after.get('x_vendor'), override.extra && JSON.stringify(override.extra.x_vendor), about)
      runs++
    }
  }
  assert.ok(runs > 5_000, String(runs))
  assert.ok(changes > runs, String(changes))
})

test('overrides: without changes the body is the same text', () => {
  const protocol = clientProtocolByStyle.get('chat') ?? assert.fail()
  const text = '{ "model": "m", "temperature": 0.50, "messages": [ {"role":"user","content":"hi"} ] }'
  const parsed = parseRequest(protocol, { body: { text }, headers: () => undefined }, defaultSettings.limit)
  assert.ok(parsed.ok)
  const place = { instance: instance('a'), model: 'm', because: '', weight: 1 }
  const override: TargetOverride = { default: { temperature: 1 }, set: { temperature: { max: 1 } } }
  assert.equal(
    prepareRequest(parsed.value, { ...place, override }, FACTS)?.body.text,
    prepareRequest(parsed.value, place, FACTS)?.body.text,
  )
})

test('overrides: for another format, settings are translated, and extra members are named as dropped', () => {
  const protocol = clientProtocolByStyle.get('chat') ?? assert.fail()
  const body: JsonObject = { model: 'm', messages: [{ role: 'user', content: 'hi' }], seed: 1 }
  const parsed = parseRequest(
    protocol,
    { body: { text: JSON.stringify(body) }, headers: () => undefined },
    defaultSettings.limit,
  )
  assert.ok(parsed.ok)
  const place = {
    instance: instance('a', ['k'], { speaks: [{ protocol: 'anthropic-messages' }] }),
    model: 'm',
    because: '',
    weight: 1,
  }
  const override: TargetOverride = {
    set: { topK: 5, maxOutputTokens: { max: 50 } },
    default: { verbosity: 'low' },
    extra: { x: 1 },
  }
  const prepared = prepareRequest(parsed.value, { ...place, override }, FACTS) ?? assert.fail()
  const sent = parseObject(prepared.body.text) ?? {}
  assert.deepEqual([sent.top_k, sent.max_tokens, sent.x], [5, 50, undefined])
  assert.deepEqual(prepared.dropped.toSorted(), ['default.verbosity', 'extra', 'seed'])
})
