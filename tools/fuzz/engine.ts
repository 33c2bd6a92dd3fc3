/**
 * Generates inputs from two sources: stored texts with a few bytes changed, and the target's own generator. All inputs
 * follow from a seed, and fast-check minimises an input that fails.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { isList, isObject, type Json } from '../../src/core/json.ts'

export type Target = {
  readonly name: string
  /** The property that must hold, in one sentence. */
  readonly property: string
  /** Texts to mutate, in addition to the corpus. */
  readonly seeds: readonly (string | Uint8Array)[]
  /** The target's own generator, used as often as mutated texts. */
  readonly generated?: fc.Arbitrary<Uint8Array>
  /** Throws if the property does not hold. May write into the input. */
  readonly check: (input: Buffer) => void | Promise<void>
  /** Stops the target's servers. */
  readonly stop?: () => Promise<void>
}

// ── The corpus ───────────────────────────────────────────────────────────────────────────────────────────────────

const CORPUS = join(import.meta.dirname, 'corpus')

export type CorpusInput = { readonly file: string; readonly bytes: Buffer }

export const corpusOf = (name: string): readonly CorpusInput[] => {
  const folder = join(CORPUS, name)
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .sort()
    .map((file) => ({ file: `${name}/${file}`, bytes: readFileSync(join(folder, file)) }))
}

/** The folders of the corpus, named after targets. */
export const corpusNames = (): readonly string[] => (existsSync(CORPUS) ? readdirSync(CORPUS) : [])

/** Stores an input in the corpus and returns its path. */
export const store = (name: string, bytes: Uint8Array): string => {
  const folder = join(CORPUS, name)
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `found-${createHash('sha256').update(bytes).digest('hex').slice(0, 12)}`)
  writeFileSync(path, bytes)
  return path
}

// ── Mutated texts ────────────────────────────────────────────────────────────────────────────────────────────────

/** Tokens that are difficult for some parser. */
const TOKENS: readonly Uint8Array[] = [
  ...['\r', '\n', '\r\n', '\r\n\r\n', '\n\n', '\0', ' ', '\t', ':', ',', ';', '=', '/', '%', '%2e', '%00', '..', '\\'],
  ...['"', "'", '{', '}', '[', ']', '{}', '[]', '\\"', '\\u0000', '\\ud800', '\\n', 'null', 'true', '""', '{"a":1}'],
  ...[
    '0',
    '-1',
    '-0',
    '1.0',
    '1e3',
    '1e999',
    '9007199254740993',
    '-9007199254740993',
    '0x10',
    '00',
    '99999999999999999999',
  ],
  ...['data:', 'data: ', 'event: ', 'id: 1\n', 'retry: 1\n', ': x\n', 'data: [DONE]\n\n', 'data', 'event:'],
  ...[
    '__proto__',
    'constructor',
    'toString',
    '"model":"x"',
    '"stream":true',
    'sk-0123456789abcdef',
    'é',
    '\u2028',
    '😀',
    '\ufeff',
  ],
  ...[
    'Content-Length: 5\r\n',
    'Transfer-Encoding: chunked\r\n',
    '5\r\nhello\r\n',
    '0\r\n\r\n',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.0',
  ],
].map((text) => Buffer.from(text))
const TOKEN = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...TOKENS) },
  fc.constantFrom(...[[0xff], [0xc3], [0xf0, 0x9f], [0x80], [0xed, 0xa0, 0x80]].map((bytes) => Uint8Array.from(bytes))),
  fc.uint8Array({ maxLength: 8 }),
)

type Edit =
  | { readonly do: 'set'; readonly at: number; readonly byte: number }
  | { readonly do: 'cut'; readonly at: number; readonly length: number }
  | { readonly do: 'put'; readonly at: number; readonly token: Uint8Array }
  | { readonly do: 'copy'; readonly at: number; readonly length: number; readonly to: number }
  | { readonly do: 'end'; readonly at: number }

const PLACE = fc.nat(1 << 20)
const EDIT: fc.Arbitrary<Edit> = fc.oneof(
  fc.record({ do: fc.constant('set' as const), at: PLACE, byte: fc.nat(255) }),
  fc.record({ do: fc.constant('cut' as const), at: PLACE, length: fc.integer({ min: 1, max: 40 }) }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant('put' as const), at: PLACE, token: TOKEN }) },
  fc.record({ do: fc.constant('copy' as const), at: PLACE, length: fc.integer({ min: 1, max: 60 }), to: PLACE }),
  fc.record({ do: fc.constant('end' as const), at: PLACE }),
)

const edited = (bytes: Buffer, edit: Edit): Buffer => {
  const at = edit.at % (bytes.length + 1)
  const before = bytes.subarray(0, at)
  switch (edit.do) {
    case 'set': {
      const changed = Buffer.from(bytes)
      if (at < changed.length) changed[at] = edit.byte
      return changed
    }
    case 'cut':
      return Buffer.concat([before, bytes.subarray(at + edit.length)])
    case 'put':
      return Buffer.concat([before, edit.token, bytes.subarray(at)])
    case 'copy': {
      const to = edit.to % (bytes.length + 1)
      return Buffer.concat([bytes.subarray(0, to), bytes.subarray(at, at + edit.length), bytes.subarray(to)])
    }
    case 'end':
      return before
    default:
      throw new Error(`unknown edit ${JSON.stringify(edit satisfies never)}`)
  }
}

/** One of the texts with up to six edits. */
export const changed = (seeds: readonly (string | Uint8Array)[]): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(fc.constantFrom(...seeds.map((seed) => Buffer.from(seed))), fc.array(EDIT, { maxLength: 6 }))
    .map(([seed, edits]) => edits.reduce(edited, seed))

// ── Mutated values ───────────────────────────────────────────────────────────────────────────────────────────────

const deep = (levels: number): Json => (levels === 0 ? 1 : [deep(levels - 1)])

const VALUE: fc.Arbitrary<Json | undefined> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<(Json | undefined)[]>(undefined, null, true, false, '', 'x', [], {}) },
  fc.constantFrom<Json[]>(0, -1, 1.5, 1e300, -1e-7, 2 ** 53, 'tool_use', 'stop', 'error', '{"a":', deep(100)),
  // fast-check's JSON values are JSON.
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>,
)

type Change = { readonly at: number; readonly value: Json | undefined; readonly name: string | undefined }
const CHANGE: fc.Arbitrary<Change> = fc.record({
  at: PLACE,
  value: VALUE,
  name: fc.option(fc.constantFrom('__proto__', 'constructor', 'type', 'id', 'x', ''), { nil: undefined, freq: 6 }),
})

const count = (value: Json | undefined): number => {
  if (isList(value)) return value.reduce<number>((sum, item) => sum + count(item), 1)
  if (isObject(value)) return Object.values(value).reduce<number>((sum, item) => sum + count(item), 1)
  return 1
}

/** Replaces the value at an index (in document order), or the name of its member. */
const replaced = (value: Json, { at, value: replacement, name }: Change): Json => {
  let left = at % count(value)
  const visit = (one: Json | undefined): Json | undefined => {
    if (left-- === 0) return replacement
    if (isList(one))
      return one.flatMap((item) => {
        const next = visit(item)
        return next === undefined ? [] : [next]
      })
    if (!isObject(one)) return one
    const members = Object.entries(one).map(([key, item]): [string, Json | undefined] => {
      const isRenamed = left === 0 && name !== undefined
      return isRenamed ? [name, item] : [key, visit(item)]
    })
    return Object.fromEntries(members)
  }
  return visit(value) ?? null
}

/** One of the values with up to five changes, as text. */
export const changedJson = (seeds: readonly Json[]): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(fc.constantFrom(...seeds), fc.array(CHANGE, { maxLength: 5 }))
    .map(([seed, changes]) => Buffer.from(JSON.stringify(changes.reduce(replaced, seed))))

type Shift = { readonly do: 'drop' | 'twice' | 'swap' | 'change'; readonly at: number; readonly change: Change }
const SHIFT: fc.Arbitrary<Shift> = fc.record({
  do: fc.constantFrom('drop' as const, 'twice' as const, 'swap' as const, 'change' as const, 'change' as const),
  at: PLACE,
  change: CHANGE,
})

/** One of the streams, with messages dropped, duplicated, moved and changed. */
export const changedStream = <T>(
  seeds: readonly (readonly T[])[],
  message: {
    readonly change: (one: T, change: (value: Json) => Json) => T
    readonly join: (all: readonly T[]) => Uint8Array
  },
): fc.Arbitrary<Uint8Array> =>
  fc.tuple(fc.constantFrom(...seeds), fc.array(SHIFT, { maxLength: 5 })).map(([seed, shifts]) => {
    const messages = [...seed]
    for (const { do: what, at: place, change } of shifts) {
      const at = place % Math.max(1, messages.length)
      const one = messages[at]
      if (one === undefined) continue
      if (what === 'drop') messages.splice(at, 1)
      else if (what === 'twice') messages.splice(at, 0, one)
      else if (what === 'swap') {
        messages.splice(at, 1)
        messages.splice((at * 7) % (messages.length + 1), 0, one)
      } else messages[at] = message.change(one, (value) => replaced(value, change))
    }
    return message.join(messages)
  })

// ── Slices ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Divides input byte by byte and in two: at every offset of short input, at forty offsets of long input. */
export const slicings = (input: Buffer): readonly (readonly Buffer[])[] => {
  const step = Math.max(1, Math.floor(input.length / 40))
  const cuts = Array.from({ length: Math.floor(input.length / step) }, (_, at) => at * step)
  return [
    ...(input.length <= 4_000 ? [Array.from(input, (_, at) => input.subarray(at, at + 1))] : []),
    ...cuts.map((cut) => [input.subarray(0, cut), input.subarray(cut)]),
  ]
}

// ── A run ────────────────────────────────────────────────────────────────────────────────────────────────────────

export type FuzzResult = {
  readonly cases: number
  /** The smallest failing input, and its error. */
  readonly fault: { readonly input: Buffer; readonly seed: number; readonly error: string } | null
}

/** Cases between two checks of the clock. */
const BATCH = 200

export const arbitraryOf = ({ name, seeds, generated }: Target): fc.Arbitrary<Uint8Array> => {
  const texts = [...seeds, ...corpusOf(name).map(({ bytes }) => bytes)]
  const fromTexts = texts.length > 0 ? [changed(texts)] : []
  return fc.oneof(...fromTexts, ...(generated ? [generated] : []))
}

/** Runs batches from this seed until the time (ms) is over or a case fails. `batches`: maximum number. */
export const runTarget = async (
  target: Target,
  {
    seed,
    ms,
    batches = Number.POSITIVE_INFINITY,
    size = BATCH,
  }: { seed: number; ms: number; batches?: number; size?: number },
): Promise<FuzzResult> => {
  const inputs = arbitraryOf(target)
  const until = performance.now() + ms
  let cases = 0
  for (let batch = 0; batch < batches && (batch === 0 || performance.now() < until); batch++) {
    const property = fc.asyncProperty(inputs, async (input) => {
      await target.check(Buffer.from(input))
    })
    const found = await fc.check(property, { seed: seed + batch, numRuns: size })
    cases += found.numRuns
    if (!found.failed) continue
    const [input] = found.counterexample ?? []
    const error = found.errorInstance
    return {
      cases,
      fault: {
        input: Buffer.from(input ?? []),
        seed: seed + batch,
        error: error instanceof Error ? (error.stack ?? error.message) : String(error),
      },
    }
  }
  return { cases, fault: null }
}
