/** In which order equal claims are tried. Every strategy gives back exactly what it was given, in another order. */
import type { ProviderKey } from '../../core/provider.ts'
import type { Settings, Strategy } from '../../core/settings.ts'
import type { Candidate } from '../../core/target.ts'
import type { QuotaLimit } from '../health/quota.ts'

export type CandidateView = {
  /** What choosing it would cost in waiting (`latency.cost`). */
  readonly latency: (candidate: Candidate) => number
  /** What its tokens cost; undefined: not known. */
  readonly price: (candidate: Candidate) => number | undefined
}

export type KeyView = {
  readonly inFlight: (key: ProviderKey) => number
  /** Under way with all of them. */
  readonly totalInFlight: () => number
  /** The scarcest of its limits that still stand, if the upstream said. */
  readonly quotaLeft: (key: ProviderKey) => QuotaLimit | undefined
  /** Counts up by one for each request, for taking turns. */
  readonly requestNumber: number
  /** What requests that share a prompt prefix have in common; absent: nothing known. */
  readonly affinity?: string
}

export const orderCandidates = (
  candidates: readonly Candidate[],
  strategy: Strategy,
  view: CandidateView,
  random: () => number,
): readonly Candidate[] => {
  if (candidates.length < 2) return candidates
  switch (strategy) {
    case 'priority':
      return candidates
    case 'weighted':
      return shuffled(candidates, ({ weight }) => weight, random)
    case 'latency':
      return bestOfTwo(candidates, view.latency, random)
    case 'cost':
      return sortedBy(candidates, (candidate) => view.price(candidate) ?? Number.POSITIVE_INFINITY)
    default:
      throw new Error(`unknown strategy ${JSON.stringify(strategy satisfies never)}`)
  }
}

/**
 * One provider's keys. Whether each may be tried is not asked here: a favourite that is out comes first all the same, is
 * passed over, and has its conversations back as soon as it may be tried. The first is found at once and the others when
 * they are asked for, which is seldom, and a provider may have a thousand.
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

/** Gone through twice it is the same order. */
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

/** What adds up along a list of keys, summed once for each list: by it one is drawn in few steps, however many there are. */
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

/** The first whose sum is above `value`: one without a share is never it. */
const indexAbove = (sums: readonly number[], value: number): number => {
  let [from, until] = [0, sums.length - 1]
  while (from < until) {
    const middle = (from + until) >> 1
    if ((sums[middle] ?? 0) > value) until = middle
    else from = middle + 1
  }
  return from
}

/** Stable, and at home with infinities (whose difference would not be a number). */
const sortedBy = <T>(items: readonly T[], rank: (item: T) => number): readonly T[] =>
  items
    .map((item) => ({ item, rank: rank(item) }))
    .sort((a, b) => Number(a.rank > b.rank) - Number(a.rank < b.rank))
    .map(({ item }) => item)

/**
 * A random order in which whoever is first, is so in proportion to its weight, and so on among the rest: each waits an
 * exponentially distributed time at the rate of its weight (Efraimidis and Spirakis). Weight 0 comes last.
 */
const shuffled = <T>(items: readonly T[], weight: (item: T) => number, random: () => number): readonly T[] =>
  sortedBy(items, (item) => {
    const rate = weight(item)
    const wait = -Math.log(1 - random())
    return rate > 0 ? wait / rate : Number.POSITIVE_INFINITY
  })

/** Of two at random the better, again and again: good choices without everybody making the same one at once. */
const bestOfTwo = <T>(items: readonly T[], price: (item: T) => number, random: () => number): readonly T[] => {
  // Each is asked for once, however often it is drawn.
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

/** Least of a key's weight that still counts, when its quota is all but used up. */
const MIN_SHARE = 0.01

/**
 * Keys with nothing left come after those that have some, the one that has again soonest first; keys of weight 0 come
 * last. Nobody is shut out: what was told may be wrong, and then the upstream says so.
 */
const usedUpLast = (keys: readonly ProviderKey[], { quotaLeft }: KeyView): readonly ProviderKey[] =>
  sortedBy(keys, (key) => {
    if (key.weight <= 0) return Number.POSITIVE_INFINITY
    const limit = quotaLeft(key)
    return limit?.share === 0 ? limit.until : Number.NEGATIVE_INFINITY
  })

type WeightedKey = { readonly key: ProviderKey; readonly weight: number; readonly load: number }

/** A key with half its quota left weighs half. */
const weightedKey = (key: ProviderKey, view: KeyView): WeightedKey => {
  const weight = Math.max(0, key.weight) * Math.max(MIN_SHARE, view.quotaLeft(key)?.share ?? 1)
  return { key, weight, load: view.inFlight(key) / weight }
}

/** Two drawn by weight, the less loaded first; the other stays in the draw. */
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

/** Whoever loses against the next is held against the one after. */
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

/** So often one is drawn before all are looked at: most keys may have next to nothing left, or one nearly all the weight. */
const MAX_DRAWS = 16

const weightSums = cachedSums(({ weight }) => weight)

/** One of those with something left, in proportion to its weight; undefined: none was found in so many draws. */
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

/** No key gets more turns in a round than this, however the weights are written. */
const MAX_TURNS = 1_000

const turnSums = cachedSums(({ weight }, least) => Math.min(MAX_TURNS, Math.round(weight / least)))

/** Keys take turns, a key of twice the weight twice in a round. The others follow in their order. */
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

/** How far above the mean of all a key may be loaded before its conversations go elsewhere. */
const ABOVE_MEAN = 1.25
/** So many more may always be under way, or a handful of requests would be torn from their caches for nothing. */
const SLACK = 4

/**
 * The favourites in their order, those that are loaded above their share after the others: consistent hashing with bounded
 * loads (Mirrokni, Thorup and Zadimoghaddam, 2016). What is hot spills over to its next favourite, always the same one.
 */
const sticky = (keys: readonly ProviderKey[], view: KeyView, affinity: string): Iterable<ProviderKey> => {
  const seed = hash(affinity, 0x811c9dc5)
  const ranks = keys.map((key) => rendezvous(key, seed))
  let mean = -1
  const isFull = (key: ProviderKey) => {
    const load = view.inFlight(key)
    // Nearly always: then the others' load is not looked at.
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

/** So many favourites are asked before all are put in order: most may be full or have nothing left. */
const MAX_FAVOURITES = 16

/** The first by rank that will do, if it is among the first few. */
const favourite = (
  keys: readonly ProviderKey[],
  ranks: readonly number[],
  willDo: (key: ProviderKey) => boolean,
): ProviderKey | undefined => {
  let [last, at] = [Number.NEGATIVE_INFINITY, -1]
  for (let asked = 0; asked < MAX_FAVOURITES; asked++) {
    let [least, next] = [Number.POSITIVE_INFINITY, -1]
    // Equal ranks go by their places.
    for (let place = 0; place < ranks.length; place++) {
      const rank = ranks[place] ?? least
      if (rank < least && (rank > last || (rank === last && place > at))) [least, next] = [rank, place]
    }
    const key = keys[next]
    if (!key) return undefined
    if (willDo(key)) return key
    ;[last, at] = [least, next]
  }
  return undefined
}

/**
 * Rendezvous hashing: the same affinity prefers the same keys in the same order, and a key that comes or goes moves
 * only its own share. The draw of each key is its exponential waiting time, as in `shuffled`, from a hash.
 */
const rendezvous = ({ id, weight }: ProviderKey, seed: number): number => {
  const drawn = (hash(id, seed) + 1) / 4_294_967_297
  return -Math.log(drawn) / weight
}

/** FNV-1a with MurmurHash3's last mix, which FNV needs for short texts to differ in every bit. */
const hash = (source: string, seed: number): number => {
  let mixed = seed
  for (let at = 0; at < source.length; at++) mixed = Math.imul(mixed ^ source.charCodeAt(at), 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
