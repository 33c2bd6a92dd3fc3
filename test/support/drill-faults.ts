/**
 * Routes whose fallback would refuse a part of their requests, by kinds of mistakes, and sound ones. For drills: `part` is what a
 * drill must name. Each seed varies what does not matter.
 */
import type { JsonObject } from '../../src/core/json.ts'
import type { RequestStyle } from '../../src/core/request-styles.ts'

/** A set-up with the requests of its route `fast`, each with its number. */
export type DrillSetup = {
  readonly yaml: string
  readonly requests: readonly { readonly style: RequestStyle; readonly body: JsonObject; readonly weight: number }[]
  /** Characters of the input of each, by place; absent: as the body. */
  readonly input?: number
  /** Models that providers list, by ID. */
  readonly lists?: Readonly<Record<string, readonly string[]>>
  /** What requires or restricts the class of clients. */
  readonly require?: string
  readonly models?: readonly string[]
  /** A key that the provider has refused, with the kind of failure. */
  readonly refusedKey?: { readonly provider: string; readonly kind: 'auth' | 'quota' }
}

export type DrillFault = DrillSetup & {
  readonly kind: string
  /** What fails in the drill. */
  readonly unit: string
  /** What the drill must name: a part of its report; null: no target is left. */
  readonly part: string | null
  /** The share of requests that is lost. */
  readonly share: number
  /** It shows without sending anything. */
  readonly isDry: boolean
}

/** 0 to 1, the same for the same seed. */
export const seeded = (seed: number): (() => number) => {
  let state = (seed * 2_654_435_761 + 12_345) >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const text = (more: JsonObject = {}): JsonObject => ({
  model: 'fast',
  messages: [{ role: 'user', content: 'hello' }],
  ...more,
})
const withPart = (part: JsonObject): JsonObject =>
  text({ messages: [{ role: 'user', content: [{ type: 'text', text: 'look' }, part] }] })
const tool = (name: string, parameters: JsonObject = { type: 'object', properties: {} }) => ({
  type: 'function',
  function: { name, parameters },
})
const PICTURE = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
const SOUND = { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }
const tools = (count: number, parameters?: JsonObject): JsonObject =>
  text({ tools: Array.from({ length: count }, (_, at) => tool(`f${at}`, parameters)) })

const PROVIDERS: { readonly [name: string]: string } = {
  openai: 'openai: { keys: [sk-openai-0123456789], models: [gpt-5-mini] }',
  gemini: 'gemini: { keys: [gemini-key-0123456789], models: [gemini-2.5-flash] }',
  anthropic: 'anthropic: { keys: [sk-ant-0123456789], models: [claude-sonnet-4-6] }',
  perplexity: 'house: { kind: perplexity, keys: [pplx-0123456789], models: [m1] }',
  deepseek: 'deepseek: { keys: [sk-deepseek-0123456789], models: [deepseek-chat] }',
  mistral: 'mistral: { keys: [mistral-key-0123456789], models: [mistral-small] }',
  small:
    'house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [house-key-0123456789], models: [{ id: m1, contextWindow: 8192 }] }',
  house:
    'house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [house-key-0123456789], models: [m1] }',
}
const MODELS: { readonly [name: string]: string } = {
  openai: 'openai/gpt-5-mini',
  gemini: 'gemini/gemini-2.5-flash',
  anthropic: 'anthropic/claude-sonnet-4-6',
  perplexity: 'house/m1',
  deepseek: 'deepseek/deepseek-chat',
  mistral: 'mistral/mistral-small',
  small: 'house/m1',
  house: 'house/m1',
}

const yamlOf = (names: readonly string[], more = '', settings = 'fallback: same-model\n'): string =>
  `${settings}drill: { shapes: true }\nproviders:\n${names.map((name) => `  ${PROVIDERS[name]}\n`).join('')}routes:\n  fast: { targets: [${names.map((name) => `"${MODELS[name]}"`).join(', ')}]${more} }\n`

type FaultKind = {
  readonly kind: string
  /** The fallbacks, of which a seed chooses one. */
  readonly fallbacks: readonly string[]
  readonly part: string | null
  readonly isDry: boolean
  /** The requests that are refused. */
  readonly body?: JsonObject
  readonly setup?: Partial<DrillSetup>
  readonly more?: string
  readonly settings?: string
  /** All requests are lost. */
  readonly isAll?: true
}

const FAULTS: readonly FaultKind[] = [
  { kind: 'tools', fallbacks: ['perplexity'], part: 'tools', isDry: true, body: tools(2) },
  { kind: 'pictures', fallbacks: ['deepseek'], part: 'pictures', isDry: true, body: withPart(PICTURE) },
  { kind: 'sound', fallbacks: ['anthropic'], part: 'sound', isDry: true, body: withPart(SOUND) },
  { kind: 'choices', fallbacks: ['anthropic'], part: 'choices', isDry: true, body: text({ n: 3 }) },
  { kind: 'stated window', fallbacks: ['small'], part: 'window', isDry: true, body: text(), setup: { input: 80_000 } },
  {
    kind: 'known window',
    fallbacks: ['mistral'],
    part: 'window',
    isDry: true,
    body: text(),
    setup: { input: 800_000 },
  },
  {
    kind: 'dead key',
    fallbacks: ['gemini', 'anthropic'],
    part: 'key',
    isDry: true,
    isAll: true,
    setup: { refusedKey: { provider: '', kind: 'auth' } },
  },
  {
    kind: 'no credit',
    fallbacks: ['gemini', 'anthropic'],
    part: 'key',
    isDry: true,
    isAll: true,
    setup: { refusedKey: { provider: '', kind: 'quota' } },
  },
  {
    kind: 'not listed',
    fallbacks: ['house'],
    part: 'model',
    isDry: true,
    isAll: true,
    setup: { lists: { house: ['m2', 'm3'] } },
  },
  { kind: 'retired', fallbacks: ['house'], part: 'retired', isDry: true, isAll: true },
  {
    kind: 'data policy',
    fallbacks: ['gemini', 'anthropic'],
    part: null,
    isDry: true,
    isAll: true,
    setup: { require: 'region=eu' },
  },
  {
    kind: 'access',
    fallbacks: ['gemini', 'anthropic'],
    part: null,
    isDry: true,
    isAll: true,
    setup: { models: ['gpt-*'] },
  },
  {
    kind: 'no failover',
    fallbacks: ['gemini', 'anthropic'],
    part: null,
    isDry: true,
    isAll: true,
    settings: 'fallback: none\n',
  },
  {
    kind: 'schema keyword',
    fallbacks: ['house'],
    part: 'tool.pattern',
    isDry: false,
    body: tools(1, { type: 'object', properties: { a: { type: 'string', pattern: '^x' } } }),
  },
  { kind: 'many tools', fallbacks: ['house'], part: 'tools.64', isDry: false, body: tools(64) },
  {
    kind: 'prefill',
    fallbacks: ['house'],
    part: 'prefill',
    isDry: false,
    body: text({
      messages: [
        { role: 'user', content: 'hello' },
        { role: 'assistant', content: 'Well' },
      ],
    }),
  },
  { kind: 'unknown pictures', fallbacks: ['house'], part: 'image.png', isDry: false, body: withPart(PICTURE) },
  { kind: 'wrong format', fallbacks: ['house'], part: 'target', isDry: false, isAll: true },
  { kind: 'certificate', fallbacks: ['house'], part: 'target', isDry: false, isAll: true },
  { kind: 'no model access', fallbacks: ['house'], part: 'target', isDry: false, isAll: true },
]

/** So many faults, of all kinds in turn. */
export const drillFaults = (count: number): readonly DrillFault[] =>
  Array.from({ length: count }, (_, seed): DrillFault => {
    const fault = FAULTS[seed % FAULTS.length]
    if (!fault) throw new Error('There are no faults.')
    const random = seeded(seed)
    const fallback = fault.fallbacks[Math.floor(random() * fault.fallbacks.length)] ?? ''
    const [few, others] = [1 + Math.floor(random() * 40), 50 + Math.floor(random() * 50)]
    const { setup = {}, kind, part, isDry, isAll } = fault
    const ends = kind === 'retired' ? 'models:\n  house/m1: { retires: 2026-01-01 }\n' : ''
    const facts = kind === 'data policy' ? PROVIDERS.openai?.replace(' }', ', facts: { region: eu } }') : undefined
    const yaml = yamlOf(['openai', fallback], fault.more, fault.settings).replace(
      PROVIDERS.openai ?? '',
      facts ?? PROVIDERS.openai ?? '',
    )
    const { refusedKey } = setup
    const requests = [
      { style: 'chat' as const, body: text(), weight: others },
      ...(isAll ? [] : [{ style: 'chat' as const, body: fault.body ?? text(), weight: few }]),
    ]
    return {
      ...setup,
      ...(refusedKey && { refusedKey: { ...refusedKey, provider: fallback } }),
      ...{
        kind,
        part,
        isDry,
        requests,
        unit: 'openai',
        yaml: `${yaml}${ends}`,
        share: isAll ? 1 : few / (few + others),
      },
    }
  })

const SOUND_BODIES: readonly (() => JsonObject)[] = [
  () => text(),
  () => text({ stream: true, temperature: 0.5, max_tokens: 500 }),
  () => tools(3, { type: 'object', properties: { a: { type: 'string', enum: ['x'] } }, required: ['a'] }),
  () => text({ tools: [tool('f')], tool_choice: 'required' }),
  () => withPart(PICTURE),
  () =>
    text({
      messages: [
        { role: 'system', content: 'be kind' },
        { role: 'user', content: 'hello' },
        { role: 'assistant', content: 'hi' },
        { role: 'user', content: 'more' },
      ],
    }),
]

/** Set-ups whose targets take all requests. */
export const soundSetups = (count: number): readonly DrillSetup[] =>
  Array.from({ length: count }, (_, seed) => {
    const random = seeded(seed + 7_777)
    const names = ['openai', 'gemini', 'anthropic']
      .map((name) => [random(), name] as const)
      .sort()
      .map(([, name]) => name)
    const strategy = ['priority', 'weighted', 'cost', 'latency'][Math.floor(random() * 4)]
    const requests = Array.from({ length: 1 + Math.floor(random() * 4) }, () => ({
      style: 'chat' as const,
      body: SOUND_BODIES[Math.floor(random() * SOUND_BODIES.length)]?.() ?? text(),
      weight: 1 + Math.floor(random() * 100),
    }))
    return { yaml: yamlOf(names.slice(0, random() < 0.5 ? 2 : 3), `, strategy: ${strategy}`), requests }
  })
