/**
 * Which shapes one target accepts, with few requests: the largest are sent first, and one that is accepted stands for all within it.
 * A refused one is halved until the feature that is refused is named. A plain request tells a target that refuses all from one that
 * refuses a feature.
 */
import type { FailureKind } from '../../core/failure.ts'
import { type Feature, isExclusive, isFeature } from './features.ts'
import { isWithin, leastOf, type Shape } from './shape.ts'
import { drilledPart } from './smallest.ts'

/** How a target took one request. `unsettled`: that says nothing about its shape, such as a rate limit. */
export type ProbeOutcome =
  | { readonly verdict: 'ready' }
  | { readonly verdict: 'refused'; readonly kind: FailureKind }
  | { readonly verdict: 'unsettled'; readonly kind: FailureKind }

/** A part of a shape: a feature, or an amount of at least this (`tools.32`). */
export type ShapePart = Feature | `${'tools' | 'media' | 'depth'}.${number}`

/**
 * `by`: the part that is refused; `target`: every request is; null: the part is not known. `doubt`: an amount of the step is refused
 * and another one accepted, and requests of the shape may have either.
 */
export type LiveVerdict =
  | { readonly verdict: 'ready' }
  | { readonly verdict: 'refused'; readonly kind: FailureKind; readonly by: ShapePart | 'target' | null }
  | { readonly verdict: 'doubt'; readonly kind: FailureKind; readonly by: ShapePart | null }
  | { readonly verdict: 'unsettled'; readonly kind: FailureKind }

type KnownVerdict = Exclude<LiveVerdict, { verdict: 'doubt' }>

/** Requests for one refusal, at most. */
const HALVINGS = 6

type RefusedShape = { readonly shape: Shape; readonly verdict: Extract<LiveVerdict, { verdict: 'refused' }> }

/** Requests that wait for their outcome; `T`: what is known then. */
type Probing<T> = Generator<Shape, T, ProbeOutcome>

/** Yields the shapes to send, one after another, and calls `settle` once for each given shape as soon as its verdict is known. */
export function* cover(shapes: readonly Shape[], settle: (shape: Shape, verdict: LiveVerdict) => void): Probing<void> {
  const known = new KnownOutcomes()
  const bySize = shapes.map((shape) => ({ shape, drilled: drilledPart(shape) }))
  bySize.sort((one, other) => partsOf(other.drilled).length - partsOf(one.drilled).length)
  for (const { shape, drilled } of bySize) {
    const verdict = known.of(drilled) ?? (yield* verdictOf(drilled, known))
    settle(shape, verdict.verdict === 'refused' ? yield* withLeast(drilled, verdict, known) : verdict)
  }
}

class KnownOutcomes {
  readonly accepted: Shape[] = []
  readonly refused: RefusedShape[] = []
  /** Refused with the least amounts of their steps. */
  readonly refusedLeast: Shape[] = []

  /** A refusal is that of the largest amounts of the shape. */
  of(shape: Shape): KnownVerdict | undefined {
    if (this.accepted.some((whole) => isWithin(shape, whole))) return READY
    return this.refusing(shape)?.verdict
  }

  refusing(shape: Shape): RefusedShape | undefined {
    return this.refused.find((one) => isWithin(one.shape, shape))
  }
}

const READY = { verdict: 'ready' } as const

function* verdictOf(shape: Shape, known: KnownOutcomes): Probing<KnownVerdict> {
  const outcome = yield* sent(shape, known)
  if (outcome.verdict !== 'refused') return outcome
  const plain = shapeOfParts(shape.style, [])
  const control: ProbeOutcome = known.of(plain) ?? (yield* sent(plain, known))
  if (control.verdict === 'unsettled') return control
  if (control.verdict === 'refused') {
    const verdict = { verdict: 'refused', kind: control.kind, by: 'target' } as const
    known.refused.push({ shape: plain, verdict })
    return verdict
  }
  const { parts, by } = (yield* withoutKnown(shape, known)) ?? (yield* halved(shape, known))
  const verdict = { verdict: 'refused', kind: outcome.kind, by } as const
  known.refused.push({ shape: shapeOfParts(shape.style, parts), verdict })
  return verdict
}

/**
 * The verdict of a shape whose largest amounts are refused: `doubt` if the least of the same steps are accepted. Only where an
 * amount may be the reason.
 */
function* withLeast(
  shape: Shape,
  verdict: Extract<LiveVerdict, { verdict: 'refused' }>,
  known: KnownOutcomes,
): Probing<LiveVerdict> {
  const { kind, by } = verdict
  const refused = known.refusing(shape)?.shape
  if (!refused || by === 'target' || (by !== null && !/^(?:tools|media)\./.test(by))) return verdict
  // A request of a larger step has more than was refused.
  const least = (name: 'tools' | 'media') => (refused[name] === shape[name] ? leastOf(shape[name]) : refused[name])
  const smaller = { ...refused, tools: least('tools'), media: least('media') }
  if (smaller.tools === refused.tools && smaller.media === refused.media) return verdict
  if (known.refusedLeast.some((one) => isWithin(one, smaller))) return verdict
  const outcome = known.of(smaller) ?? (yield* sent(smaller, known))
  if (outcome.verdict === 'ready') return { verdict: 'doubt', kind, by }
  if (outcome.verdict !== 'refused') return outcome
  known.refusedLeast.push(smaller)
  return verdict
}

function* sent(shape: Shape, { accepted }: KnownOutcomes): Probing<ProbeOutcome> {
  const outcome = yield shape
  if (outcome.verdict === 'ready') accepted.push(shape)
  return outcome
}

/** `parts`: the fewest that are known to be refused together. */
type NamedPart = { readonly parts: readonly ShapePart[]; readonly by: ShapePart | null }

/** Whether the shape is accepted without one part that is refused elsewhere: then that is the one. */
function* withoutKnown(shape: Shape, known: KnownOutcomes): Probing<NamedPart | null> {
  const parts = partsOf(shape)
  for (const by of new Set(known.refused.map(({ verdict }) => verdict.by))) {
    if (by === null || by === 'target' || !parts.includes(by)) continue
    const others = shapeOfParts(
      shape.style,
      parts.filter((part) => part !== by),
    )
    if ((yield* sent(others, known)).verdict === 'ready') return { parts, by }
  }
  return null
}

/** Halves the parts, in their order: the refused one is the last of the shortest beginning that is refused. */
function* halved(shape: Shape, known: KnownOutcomes): Probing<NamedPart> {
  const { style } = shape
  const parts = partsOf(shape)
  let accepted = 0
  let refused = parts.length
  let requests = 0
  while (refused - accepted > 1) {
    const middle = (accepted + refused) >> 1
    const beginning = shapeOfParts(style, parts.slice(0, middle))
    const before = known.of(beginning)
    if (!before && ++requests > HALVINGS) return { parts: parts.slice(0, refused), by: null }
    const { verdict } = before ?? (yield* sent(beginning, known))
    if (verdict === 'unsettled') return { parts: parts.slice(0, refused), by: null }
    if (verdict === 'ready') accepted = middle
    else refused = middle
  }
  return { parts: parts.slice(0, refused), by: parts[refused - 1] ?? null }
}

// ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

const AMOUNT_PARTS = {
  tools: [1, 8, 32, 128, 129],
  media: [8, 32, 128, 129],
  depth: [3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
} as const
type AmountName = keyof typeof AMOUNT_PARTS

/** The parts of a shape, each after those that it needs. Those that exclude each other come first, so that halves keep them. */
export const partsOf = (shape: Shape): readonly ShapePart[] => {
  const amounts = (name: AmountName): readonly ShapePart[] =>
    AMOUNT_PARTS[name].filter((step) => step <= shape[name]).map((step): ShapePart => `${name}.${step}`)
  const alone = shape.features.filter((one) => isExclusive(one) && !one.startsWith('choice.'))
  const [one = [], ...more] = amounts('tools').map((part) => [part])
  const choices = shape.features.filter((feature) => feature.startsWith('choice.'))
  const others = shape.features.filter((feature) => !isExclusive(feature))
  return [...alone, ...one, ...choices, ...more.flat(), ...others, ...amounts('media'), ...amounts('depth')]
}

const shapeOfParts = (style: Shape['style'], parts: readonly ShapePart[]): Shape => {
  const amounts = { tools: 0, media: 0, depth: 0 }
  for (const part of parts) {
    const [name, step] = part.split('.')
    if (name === 'tools' || name === 'media' || name === 'depth') amounts[name] = Number(step)
  }
  return drilledPart({ style, features: parts.filter(isFeature), ...amounts, others: 0, input: 0, output: 0 })
}
