/** The order of candidates of equal rank, and of a provider's keys. Every strategy returns a permutation of its input. */
import type { ProviderKey } from '../../core/provider.ts'
import type { Settings, Strategy } from '../../core/settings.ts'
import type { Candidate } from '../../core/target.ts'
import type { QuotaLimit } from '../health/quota.ts'

/** The facts by which candidates are ordered. */
export type CandidateView = {
  /** The expected wait in ms (`expectedWait` in `health/latency.ts`). */
  readonly latency: (candidate: Candidate) => number
  /** The price for comparison (`blendedPrice` of the price book); undefined: unknown. */
  readonly price: (candidate: Candidate) => number | undefined
}

/** The facts by which the keys of one provider instance are ordered. */
export type KeyView = {
  /** Requests in flight with this key. */
  readonly inFlight: (key: ProviderKey) => number
  /** Requests in flight with all keys of the instance. */
  readonly totalInFlight: () => number
  /** The rate limit with the smallest remaining share; undefined: unknown. */
  readonly quotaLeft: (key: ProviderKey) => QuotaLimit | undefined
  /** A counter of requests, for round-robin. */
  readonly requestNumber: number
  /** The affinity of the request (`affinity.ts`); absent: unknown. */
  readonly affinity?: string
}

/**
 * Orders candidates of equal rank by the strategy. `random`: from 0 up to, but not including, 1; null: the order that is
 * expected most often, the same each time.
 */
export const orderCandidates = (
  candidates: readonly Candidate[],
  strategy: Strategy,
  view: CandidateView,
  random: (() => number) | null,
): readonly Candidate[] => {
  if (candidates.length < 2) return candidates
  switch (strategy) {
    case 'priority':
      return candidates
    case 'weighted':
      return random
        ? shuffled(candidates, ({ weight }) => weight, random)
        : sortedBy(candidates, ({ weight }) => -weight)
    case 'latency':
      return random ? bestOfTwo(candidates, view.latency, random) : sortedBy(candidates, view.latency)
    case 'cost':
      return sortedBy(candidates, (candidate) => view.price(candidate) ?? Number.POSITIVE_INFINITY)
    default:
      throw new Error(`unknown strategy ${JSON.stringify(strategy satisfies never)}`)
  }
}

/**
 * How often each candidate is first, where requests draw their order; empty: all have the same order. Those of weight 0 have a share
 * of 0.
 */
export const firstShares = (
  candidates: readonly Candidate[],
  strategy: Strategy,
  view: CandidateView,
): ReadonlyMap<Candidate, number> => {
  const some = candidates.length
  if (strategy === 'weighted') {
    const sum = candidates.reduce((total, { weight }) => total + weight, 0)
    return new Map(sum > 0 ? candidates.map((one) => [one, one.weight / sum]) : [])
  }
  // The better of two: of two the same each time.
  if (strategy !== 'latency' || some < 3) return new Map()
  const ranked = orderCandidates(candidates, strategy, view, null)
  return new Map(ranked.map((one, rank) => [one, (2 * (some - 1 - rank)) / (some * (some - 1))]))
}

/**
 * Orders the keys of one instance. Cooldowns and circuits are not checked here: a preferred key that is unavailable stays
 * first and is skipped by the router, so that its conversations return to it later. The keys after the first are ordered
 * when the iterable reaches them, because that is rare and a provider may have a thousand keys.
 */
export const orderKeys = (
  keys: readonly ProviderKey[],
  strategy: Settings['keyStrategy'],
  view: KeyView,
  random: () => number,
): Iterable<ProviderKey> => {
  if (keys.length < 2) return keys
  switch (strategy) {
    case 'spread':
      return spread(keys, view, random)
    case 'round-robin':
      return rotated(keys, view.requestNumber)
    case 'sticky':
      return view.affinity === undefined ? spread(keys, view, random) : sticky(keys, view, view.affinity)
    default:
      throw new Error(`unknown strategy ${JSON.stringify(strategy satisfies never)}`)
  }
}

/** A first key, and the other keys computed when needed. Repeated iteration returns the same order. */
class LazyOrder implements Iterable<ProviderKey> {
  readonly #first: ProviderKey
  readonly #others: () => readonly ProviderKey[]
  #made: readonly ProviderKey[] | null = null

  constructor(first: ProviderKey, others: () => readonly ProviderKey[]) {
    this.#first = first
    this.#others = others
  }

  *[Symbol.iterator]() {
    yield this.#first
    this.#made ??= this.#others()
    yield* this.#made
  }
}

/** Cumulative sums of a share per key, cached for each list, so that a weighted draw needs only a binary search. `least`: the smallest positive weight. */
const cachedSums = (shareOf: (key: ProviderKey, least: number) => number) => {
  const known = new WeakMap<readonly ProviderKey[], readonly number[]>()
  return (keys: readonly ProviderKey[]): readonly number[] => {
    const before = known.get(keys)
    if (before) return before
    const least = keys.reduce((found, { weight }) => (weight > 0 ? Math.min(found, weight) : found), Infinity)
    let sum = 0
    const sums = keys.map((key) => {
      sum += key.weight > 0 ? shareOf(key, least) : 0
      return sum
    })
    known.set(keys, sums)
    return sums
  }
}

/** The first index whose sum is above `value`, by binary search. Never a key without a share. */
const indexAbove = (sums: readonly number[], value: number): number => {
  let [from, until] = [0, sums.length - 1]
  while (from < until) {
    const middle = (from + until) >> 1
    if ((sums[middle] ?? 0) > value) until = middle
    else from = middle + 1
  }
  return from
}

/** Stable sort by rank. Compares instead of subtracting, because the difference of two infinities is NaN. */
const sortedBy = <T>(items: readonly T[], rank: (item: T) => number): readonly T[] =>
  items
    .map((item) => ({ item, rank: rank(item) }))
    .sort((a, b) => Number(a.rank > b.rank) - Number(a.rank < b.rank))
    .map(({ item }) => item)

/**
 * A weighted random permutation (Efraimidis and Spirakis): each item draws an exponentially distributed time with its
 * weight as rate, and the smallest time is first. Weight 0 is last.
 */
const shuffled = <T>(items: readonly T[], weight: (item: T) => number, random: () => number): readonly T[] =>
  sortedBy(items, (item) => {
    const rate = weight(item)
    const wait = -Math.log(1 - random())
    return rate > 0 ? wait / rate : Number.POSITIVE_INFINITY
  })

/** Power of two choices: repeatedly takes the better of two random items, so that concurrent requests do not all choose the same one. */
const bestOfTwo = <T>(items: readonly T[], price: (item: T) => number, random: () => number): readonly T[] => {
  // Compute each price once, although an item may be drawn several times.
  const rest = items.map((item) => ({ item, price: price(item) }))
  const chosen: T[] = []
  while (rest.length > 1) {
    const one = randomIndex(rest.length, random)
    const other = (one + 1 + randomIndex(rest.length - 1, random)) % rest.length
    const [first, second] = one < other ? [one, other] : [other, one]
    const [left, right] = [rest[first], rest[second]]
    if (!left || !right) break
    const better = right.price < left.price ? second : first
    chosen.push(better === second ? right.item : left.item)
    rest.splice(better, 1)
  }
  return [...chosen, ...rest.map(({ item }) => item)]
}

const randomIndex = (length: number, random: () => number): number =>
  Math.min(length - 1, Math.floor(random() * length))

/** The smallest share of its weight that a key with little quota left keeps. */
const MIN_SHARE = 0.01

/**
 * Moves keys with exhausted limits after the others, ordered by their resets, and keys of weight 0 to the end. No key is
 * excluded, because the reported limits may be wrong.
 */
const usedUpLast = (keys: readonly ProviderKey[], { quotaLeft }: KeyView): readonly ProviderKey[] =>
  sortedBy(keys, (key) => {
    if (key.weight <= 0) return Number.POSITIVE_INFINITY
    const limit = quotaLeft(key)
    return limit?.share === 0 ? limit.until : Number.NEGATIVE_INFINITY
  })

type WeightedKey = { readonly key: ProviderKey; readonly weight: number; readonly load: number }

/** A key with half its quota left has half its weight. `load`: requests in flight divided by weight. */
const weightedKey = (key: ProviderKey, view: KeyView): WeightedKey => {
  const weight = Math.max(0, key.weight) * Math.max(MIN_SHARE, view.quotaLeft(key)?.share ?? 1)
  return { key, weight, load: view.inFlight(key) / weight }
}

/** Weighted power of two choices: draws two keys by weight, and the less loaded is first. The other is compared with the next draw. */
const spread = (keys: readonly ProviderKey[], view: KeyView, random: () => number): Iterable<ProviderKey> => {
  const all = (of: readonly ProviderKey[], held?: WeightedKey) => {
    const drawKey = shuffled(
      of.map((key) => weightedKey(key, view)),
      ({ weight }) => weight,
      random,
    )
    return usedUpLast(inPairs(held ? [held, ...drawKey] : drawKey), view)
  }
  const one = drawn(keys, view, random)
  if (!one) return all(keys)
  const other = drawn(keys, view, random, one)
  if (!other) return new LazyOrder(one, () => all(keys.filter((key) => key !== one)))
  const [first, second] = [weightedKey(one, view), weightedKey(other, view)]
  const [winner, loser] = second.load < first.load ? [second, first] : [first, second]
  return new LazyOrder(winner.key, () =>
    all(
      keys.filter((key) => key !== one && key !== other),
      loser,
    ),
  )
}

/** Compares each key with the next: the less loaded is taken, the other is compared with the one after. */
const inPairs = (drawn: readonly WeightedKey[]): readonly ProviderKey[] => {
  const chosen: ProviderKey[] = []
  let held: WeightedKey | undefined
  for (const next of drawn) {
    if (!held) {
      held = next
      continue
    }
    const [winner, loser]: readonly [WeightedKey, WeightedKey] =
      next.weight > 0 && next.load < held.load ? [next, held] : [held, next]
    chosen.push(winner.key)
    held = loser
  }
  return held ? [...chosen, held.key] : chosen
}

/** Maximum draws before all keys are examined: most keys may be exhausted, or one may have nearly all the weight. */
const MAX_DRAWS = 16

const weightSums = cachedSums(({ weight }) => weight)

/** Draws a key with quota left, in proportion to its weight; undefined: none found within the maximum of draws. */
const drawn = (
  keys: readonly ProviderKey[],
  view: KeyView,
  random: () => number,
  except?: ProviderKey,
): ProviderKey | undefined => {
  const sums = weightSums(keys)
  const total = sums.at(-1) ?? 0
  for (let draw = 0; draw < MAX_DRAWS && total > 0; draw++) {
    const key = keys[indexAbove(sums, random() * total)]
    if (!key || key === except) continue
    const share = view.quotaLeft(key)?.share ?? 1
    if (share === 1 || (share > 0 && random() < Math.max(MIN_SHARE, share))) return key
  }
  return undefined
}

/** Maximum turns of one key in a round, whatever the ratio of the weights. */
const MAX_TURNS = 1_000

const turnSums = cachedSums(({ weight }, least) => Math.min(MAX_TURNS, Math.round(weight / least)))

/** Weighted round-robin: a key with twice the weight has two turns in a round. The keys after it follow in their order. */
const rotated = (keys: readonly ProviderKey[], turn: number): Iterable<ProviderKey> => {
  const sums = turnSums(keys)
  const round = sums.at(-1) ?? 0
  if (round === 0) return keys
  const at = indexAbove(sums, turn % round)
  const first = keys[at]
  if (!first) return keys
  return new LazyOrder(first, () =>
    sortedBy([...keys.slice(at + 1), ...keys.slice(0, at)], ({ weight }) => (weight > 0 ? 0 : 1)),
  )
}

/** A key may have this multiple of the mean load before its conversations use another key. */
const ABOVE_MEAN = 1.25
/** Requests that a key may always have in flight: with little load, conversations stay with their cache. */
const SLACK = 4

/**
 * Keys by affinity: rendezvous hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016). Keys above their
 * share of the load come after the others, so a busy conversation spills over to its next key, always the same one.
 */
const sticky = (keys: readonly ProviderKey[], view: KeyView, affinity: string): Iterable<ProviderKey> => {
  const seed = hash(affinity, 0x811c9dc5)
  const ranks = keys.map((key) => rendezvous(key, seed))
  let mean = -1
  const isFull = (key: ProviderKey) => {
    const load = view.inFlight(key)
    // The usual case, which does not need the load of the other keys.
    if (load <= SLACK) return false
    if (mean < 0) mean = view.totalInFlight() / (weightSums(keys).at(-1) ?? 0)
    return load > SLACK + ABOVE_MEAN * mean * key.weight
  }
  const all = () => {
    const ranked = sortedBy(keys, (key) => rendezvous(key, seed))
    return usedUpLast([...ranked.filter((key) => !isFull(key)), ...ranked.filter(isFull)], view)
  }
  const first = favourite(keys, ranks, (key) => !isFull(key) && view.quotaLeft(key)?.share !== 0)
  return first ? new LazyOrder(first, () => all().filter((key) => key !== first)) : all()
}

/** Maximum keys examined by rank before all keys are sorted: most keys may be full or exhausted. */
const MAX_FAVOURITES = 16

/** The first acceptable key by rank; undefined if none of the first 16 is acceptable. */
const favourite = (
  keys: readonly ProviderKey[],
  ranks: readonly number[],
  isAcceptable: (key: ProviderKey) => boolean,
): ProviderKey | undefined => {
  let [last, at] = [Number.NEGATIVE_INFINITY, -1]
  for (let examined = 0; examined < MAX_FAVOURITES; examined++) {
    let [least, next] = [Number.POSITIVE_INFINITY, -1]
    // Equal ranks are ordered by position.
    for (let place = 0; place < ranks.length; place++) {
      const rank = ranks[place] ?? least
      if (rank < least && (rank > last || (rank === last && place > at))) [least, next] = [rank, place]
    }
    const key = keys[next]
    if (!key) return undefined
    if (isAcceptable(key)) return key
    ;[last, at] = [least, next]
  }
  return undefined
}

/**
 * Weighted rendezvous hashing: the same affinity ranks the keys in the same order, and adding or removing a key moves only
 * that key's share. The rank is an exponentially distributed time as in `shuffled`, from a hash instead of a random number.
 */
const rendezvous = ({ id, weight }: ProviderKey, seed: number): number => {
  const drawn = (hash(id, seed) + 1) / 4_294_967_297
  return -Math.log(drawn) / weight
}

/** FNV-1a with the finaliser of MurmurHash3, without which hashes of short texts differ in few bits. 32 bits. */
export const hash = (source: string, seed: number): number => {
  let mixed = seed
  for (let at = 0; at < source.length; at++) mixed = Math.imul(mixed ^ source.charCodeAt(at), 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
