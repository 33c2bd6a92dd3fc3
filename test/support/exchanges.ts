/**
 * The project's own exchanges (`test/exchanges`): a file for each format and feature, written by hand after the vendors'
 * published schemas. Its README describes them.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import type { ChatAnswer, FinishKind, UpstreamProtocolName, Usage } from '../../src/core/chat.ts'
import type { FailureKind } from '../../src/core/failure.ts'
import { isObject, type Json, type JsonObject, object, parseObject, text } from '../../src/core/json.ts'
import { type Recording, recordingsOf } from './recordings.ts'

/** The meaning of an answer. An absent member is empty. */
export type Reading = {
  readonly text?: string
  readonly refusal?: string
  readonly reasoning?: string
  /** Reasoning signatures or encrypted reasoning, in order. */
  readonly signatures?: readonly string[]
  /** `id` is absent where the format has none or the provider omits it. */
  readonly calls?: readonly { readonly id?: string; readonly name: string; readonly input: Json }[]
  /** URLs of the cited sources. */
  readonly cited?: readonly string[]
  /** Each token with its log probability. */
  readonly logprobs?: readonly (readonly [token: string, logprob: number])[]
  readonly finish?: FinishKind
  readonly stopSequence?: string
  /** Counts above zero. */
  readonly usage?: Partial<Omit<Usage, 'raw'>>
  readonly failure?: { readonly kind: FailureKind; readonly retryAfter?: number }
}

type Whole = { readonly status: number; readonly headers: { readonly [name: string]: string }; readonly body: Json }

/** One exchange. `stream` has one entry for each event, framed as its format does (`framed`). */
export type Exchange = {
  readonly protocol: UpstreamProtocolName
  readonly feature: string
  readonly about: string
  /** The body of the request for a whole answer. */
  readonly request: JsonObject
  readonly whole?: Whole
  readonly stream?: readonly Json[]
  readonly reading: Reading
}

const folder = new URL('../exchanges/', import.meta.url)

/** Reads a file of the folder as a JSON object. */
const readJson = (path: string): JsonObject => {
  const value = parseObject(readFileSync(new URL(path, folder), 'utf8'))
  assert.ok(value, `${path} is not a JSON object`)
  return value
}

/** The formats, in the order of the tables; `api` is their name for the recordings. */
export const FORMATS = {
  'openai-chat': { api: 'chat', provider: 'openai', framing: 'sse' },
  'openai-responses': { api: 'responses', provider: 'openai', framing: 'sse' },
  'anthropic-messages': { api: 'messages', provider: 'anthropic', framing: 'sse' },
  gemini: { api: 'gemini', provider: 'gemini', framing: 'sse' },
  'bedrock-converse': { api: 'bedrock-converse', provider: 'bedrock', framing: 'aws-eventstream' },
  mistral: { api: 'mistral', provider: 'mistral', framing: 'sse' },
  cohere: { api: 'cohere', provider: 'cohere', framing: 'sse' },
  ollama: { api: 'ollama', provider: 'ollama', framing: 'ndjson' },
} as const satisfies { readonly [name in UpstreamProtocolName]: object }

export const formatNames = Object.keys(FORMATS) as readonly UpstreamProtocolName[]

/** Features that a format lacks, each with the reason (from `absent.json`). */
export const absences = (): ReadonlyMap<string, ReadonlyMap<string, string>> =>
  new Map(
    Object.entries(readJson('absent.json')).map(([feature, formats]) => [
      feature,
      new Map(Object.entries(object(formats) ?? {}).map(([format, why]) => [format, text(why) ?? ''])),
    ]),
  )

const read = (protocol: UpstreamProtocolName): readonly Exchange[] =>
  readdirSync(new URL(`${protocol}/`, folder))
    .filter((name) => name.endsWith('.json'))
    .sort()
    .map((name) => {
      // `exchanges.test.ts` checks the members of every file.
      const file = readJson(`${protocol}/${name}`) as unknown as Omit<Exchange, 'protocol' | 'feature'>
      return { ...file, protocol, feature: name.slice(0, -'.json'.length) }
    })

let all: readonly Exchange[] | undefined

/** All exchanges, read once. */
export const exchanges = (): readonly Exchange[] => {
  all ??= formatNames.flatMap(read)
  return all
}

/** The frame of a stream event, without its terminator. */
const framed = (protocol: UpstreamProtocolName, event: Json): string => {
  const data = typeof event === 'string' ? event : JSON.stringify(event)
  const { framing } = FORMATS[protocol]
  if (framing !== 'sse') return data
  const name = protocol === 'gemini' || !isObject(event) ? undefined : text(event.type)
  return name === undefined ? `data: ${data}` : `event: ${name}\ndata: ${data}`
}

/** Converts an exchange to recordings (whole, streamed, or both), so that any reader of recordings accepts it. */
export const asRecordings = ({ protocol, feature, request, whole, stream }: Exchange): readonly Recording[] => {
  const { api, provider, framing } = FORMATS[protocol]
  const shared = { api, provider, trimmed: false, request }
  const id = `own ${protocol} ${feature}`
  return [
    ...(whole
      ? [
          {
            ...shared,
            id,
            status: whole.status,
            framing: null,
            chunks: null,
            response_headers: whole.headers,
            response: whole.body,
          },
        ]
      : []),
    ...(stream
      ? [
          {
            ...shared,
            id: `${id} streamed`,
            status: 200,
            framing,
            response_headers: null,
            response: null,
            chunks: stream.map((event) => framed(protocol, event)),
          },
        ]
      : []),
  ]
}

const joined = (answer: ChatAnswer, type: string): string =>
  answer.blocks.map((block) => (block.type === type ? block.text : '')).join('')

/** Omits empty texts, empty lists and zero counts. */
const withoutEmpty = <T extends object>(value: T): Partial<T> =>
  Object.fromEntries(
    Object.entries(value).filter(
      ([, member]) =>
        member !== undefined && member !== '' && member !== 0 && !(Array.isArray(member) && !member.length),
    ),
  ) as Partial<T>

/** Converts a decoded answer to a `Reading`. `madeIds`: the exchange has no call ids, so generated ones are omitted. */
export const readingOf = (answer: ChatAnswer, madeIds: boolean): Reading => {
  const { blocks, finish, usage, failure } = answer
  const { raw: _, ...counts } = usage ?? {}
  return withoutEmpty({
    text: joined(answer, 'text'),
    refusal: joined(answer, 'refusal'),
    reasoning: joined(answer, 'reasoning'),
    signatures: blocks.flatMap(({ signature }) => signature?.value ?? []),
    calls: blocks.flatMap((block) => {
      if (block.type !== 'tool-call') return []
      const call = { name: block.name, input: JSON.parse(block.text || '{}') as Json }
      return [madeIds ? call : { id: block.id, ...call }]
    }),
    cited: blocks.flatMap(({ citations = [] }) => citations.map(({ url }) => url)),
    logprobs: blocks.flatMap(({ logprobs = [] }) =>
      logprobs.map((entry) => [text(object(entry)?.token) ?? '', Number(object(entry)?.logprob)] as const),
    ),
    finish: finish?.kind,
    stopSequence: finish?.stopSequence,
    usage: usage && withoutEmpty(counts),
    failure: failure && withoutEmpty({ kind: failure.kind, retryAfter: failure.retryAfter }),
  }) as Reading
}

/** Every feature, in the order of the tables. */
export const features = (): readonly string[] =>
  [...new Set([...exchanges().map(({ feature }) => feature), ...absences().keys()])].sort()

/** The README of the folder. */
export const README = (): string => readFileSync(new URL('README.md', folder), 'utf8')

/** A table of features by format (whole, streamed, or both), followed by the reasons for missing ones. */
export const featureTable = (): string => {
  const absent = absences()
  const cell = (feature: string, format: UpstreamProtocolName): string => {
    const exchange = exchanges().find((one) => one.protocol === format && one.feature === feature)
    if (!exchange) return '–'
    return exchange.whole && exchange.stream ? 'both' : exchange.whole ? 'whole' : 'stream'
  }
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const whys = [...absent].flatMap(([feature, formats]) =>
    [...formats].map(([format, why]) => line([`\`${feature}\``, format, why])),
  )
  return [
    line(['feature', ...formatNames]),
    line(['feature', ...formatNames].map(() => '---')),
    ...features().map((feature) => line([`\`${feature}\``, ...formatNames.map((format) => cell(feature, format))])),
    '',
    'Not in the table (–):',
    '',
    line(['feature', 'format', 'why']),
    line(['---', '---', '---']),
    ...whys,
  ].join('\n')
}

/**
 * Complete answers and errors of a format that have a status: recordings where present, and the project's own
 * exchanges.
 */
export const evidenceOf = (protocol: UpstreamProtocolName): readonly Recording[] => [
  ...recordingsOf(FORMATS[protocol].api),
  ...exchanges()
    .filter((exchange) => exchange.protocol === protocol && (exchange.whole || !exchange.reading.failure))
    .flatMap(asRecordings),
]
