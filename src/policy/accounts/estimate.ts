/** Estimates the tokens of an attempt before it is made, to reserve its cost. */
import type { Budget } from '../../core/accounts.ts'

// ── Input ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Bytes of a request body per token. JSON around the text is included, so the estimate is rather high. */
const BYTES_PER_TOKEN = 3

/** Estimates the input tokens of a body that contains text only, from its length. Images need `estimateTokens`. */
export const tokensOfBytes = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Counted input tokens per estimated token of a model: a moving ratio between 0.5 and 2. */
export type InputRatio = number

/** The ratio of a model without answers. */
export const INITIAL_RATIO: InputRatio = 1
const MIN_RATIO = 0.5
const MAX_RATIO = 2
/** The weight of one answer. */
const WEIGHT = 0.1

/**
 * Updates a model's ratio after an answer. `estimated`: before the ratio was applied. One answer changes it by a tenth of
 * the difference, so that a single unusual request has little effect.
 */
export const updateRatio = (ratio: InputRatio, counted: number, estimated: number): InputRatio => {
  if (!(counted > 0 && estimated > 0 && Number.isFinite(counted + estimated))) return ratio
  const observed = clamp(counted / estimated, MIN_RATIO, MAX_RATIO)
  return clamp(ratio + (observed - ratio) * WEIGHT, MIN_RATIO, MAX_RATIO)
}

/** Corrects an estimate by the model's ratio. Rounded up. */
export const correctedInput = (estimated: number, ratio: InputRatio): number => Math.ceil(estimated * ratio)

const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value))

// ── Output ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** How many answers are kept. */
const MAX_ANSWERS = 256
/** Below this number of answers their lengths are not used. */
const MIN_ANSWERS = 16
/** The share of answers that are at most as long as the estimate. */
const SHARE = 0.95

/**
 * The output tokens of the last 256 answers of one key and one model. Kept in order of arrival and in order of size,
 * because sorting at each request would take 10 µs.
 */
export class OutputLengths {
  readonly #arrived: number[] = []
  readonly #sorted: number[] = []
  #oldest = 0

  /** Adds the output tokens of an answer; replaces the oldest of 256. Invalid counts are ignored. */
  add(tokens: number): void {
    if (!(tokens >= 0) || tokens === Number.POSITIVE_INFINITY) return
    if (this.#arrived.length < MAX_ANSWERS) {
      this.#arrived.push(tokens)
      this.#sorted.push(tokens)
      this.#sort(this.#sorted.length - 1, tokens)
      return
    }
    const replaced = this.#arrived[this.#oldest] ?? 0
    this.#arrived[this.#oldest] = tokens
    this.#oldest = (this.#oldest + 1) % MAX_ANSWERS
    if (tokens !== replaced) this.#sort(this.#rankOf(replaced), tokens)
  }

  /** Puts a length in its place and moves those between it and the place that is free. */
  #sort(free: number, tokens: number): void {
    const sorted = this.#sorted
    let at = free
    for (; at > 0 && (sorted[at - 1] ?? 0) > tokens; at--) sorted[at] = sorted[at - 1] ?? 0
    for (; at + 1 < sorted.length && (sorted[at + 1] ?? 0) < tokens; at++) sorted[at] = sorted[at + 1] ?? 0
    sorted[at] = tokens
  }

  /** The 95th percentile by nearest rank. Undefined if there are fewer than 16 answers. */
  get usual(): number | undefined {
    const { length } = this.#sorted
    return length < MIN_ANSWERS ? undefined : this.#sorted[Math.ceil(length * SHARE) - 1]
  }

  /** The position of the first length that is not smaller. */
  #rankOf(tokens: number): number {
    let [low, high] = [0, this.#sorted.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#sorted[middle] ?? 0) < tokens) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The known bounds of an answer in tokens. */
export type OutputBounds = {
  /** `max_tokens` of the request. */
  readonly requested?: number | undefined
  /** The maximum of the model. */
  readonly modelMaximum?: number | undefined
  /** The usual length of this key's answers of this model; see `OutputLengths`. */
  readonly usual?: number | undefined
  /** Number of choices (`n`); 1 if absent. */
  readonly choices?: number | undefined
}

/** Assumed length in tokens of an answer without enough earlier ones. */
const UNKNOWN_LENGTH = 1_024
/** The default of `budget.maxOutput`: the longest reservation in tokens for a budget that reserves `max`. */
export const MAX_OUTPUT = 32_768

/**
 * The least output tokens to charge for an attempt whose answer was not read to its end. `reserved`: what was reserved for it.
 * Earlier short answers must not make it cheaper. `isUnseen`: nothing of the answer could be seen and its client left, so all
 * that the client has asked for may have been generated.
 */
export const owedOutput = (
  { requested, modelMaximum, choices = 1 }: Omit<OutputBounds, 'usual'>,
  {
    reserved,
    isUnseen,
    maxOutput,
  }: { readonly reserved: number; readonly isUnseen: boolean; readonly maxOutput: number },
): number => {
  const usual = Math.max(reserved, estimateOutput({ requested, modelMaximum, choices }, 'typical'))
  if (!isUnseen || requested === undefined || !(requested > 0)) return usual
  const most = modelMaximum !== undefined && modelMaximum > 0 ? modelMaximum : maxOutput
  return Math.max(usual, Math.ceil(Math.min(requested, most)) * Math.max(1, choices))
}

/**
 * Estimates the output tokens of an attempt. `typical`: the usual length, because reserving a model's whole window would
 * refuse requests while there is money. `max`: the longest possible answer, up to `maxOutput`.
 */
export const estimateOutput = (
  { requested, modelMaximum, usual, choices = 1 }: OutputBounds,
  reserve: Budget['reserve'],
  maxOutput: number = MAX_OUTPUT,
): number => {
  const limit = reserve === 'max' ? maxOutput : (usual ?? UNKNOWN_LENGTH)
  return Math.ceil(withinBound(withinBound(limit, requested), modelMaximum)) * Math.max(1, choices)
}

const withinBound = (tokens: number, bound: number | undefined): number =>
  bound !== undefined && bound > 0 ? Math.min(tokens, bound) : tokens
