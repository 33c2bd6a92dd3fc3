/** In which order equal claims are tried. Every strategy gives back exactly what it was given, in another order. */
import type { ProviderKey } from '../core/provider.ts'
import type { Settings, Strategy } from '../core/settings.ts'
import type { Candidate } from '../core/target.ts'
import type { Limit } from './quota.ts'

export type View = {
  /** What choosing it would cost in waiting (`latency.cost`). */
  readonly latency: (candidate: Candidate) => number
  /** What its tokens cost; undefined: not known. */
  readonly price: (candidate: Candidate) => number | undefined
}

export type KeyView = {
  readonly inFlight: (key: ProviderKey) => number
  /** The scarcest of its limits that still stand, if the upstream said. */
  readonly left: (key: ProviderKey) => Limit | undefined
  /** Counts up by one for each request, for taking turns. */
  readonly turn: number
  /** What requests that share a prompt prefix have in common; absent: nothing known. */
  readonly affinity?: string
}

export const order = (
  candidates: readonly Candidate[],
  strategy: Strategy,
  view: View,
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
 * passed over, and has its conversations back as soon as it may be tried.
 */
export const orderKeys = (
  keys: readonly ProviderKey[],
  strategy: Settings['keyStrategy'],
  view: KeyView,
  random: () => number,
): readonly ProviderKey[] => {
  if (keys.length < 2) return keys
  switch (strategy) {
    case 'spread':
      return spread(keys, view, random)
    case 'round-robin':
      return rotated(keys, view.turn)
    case 'sticky':
      return view.affinity === undefined ? spread(keys, view, random) : sticky(keys, view, view.affinity)
    default:
      throw new Error(`unknown strategy ${JSON.stringify(strategy satisfies never)}`)
  }
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
  const rest = [...items]
  const chosen: T[] = []
  while (rest.length > 1) {
    const one = below(rest.length, random)
    const other = (one + 1 + below(rest.length - 1, random)) % rest.length
    const [first, second] = one < other ? [one, other] : [other, one]
    const better = price(rest[second] as T) < price(rest[first] as T) ? second : first // both indices are below the length
    chosen.push(...rest.splice(better, 1))
  }
  return [...chosen, ...rest]
}

const below = (length: number, random: () => number): number => Math.min(length - 1, Math.floor(random() * length))

/** Least of a key's weight that still counts, when its quota is all but used up. */
const SCARCE = 0.01

/**
 * Keys with nothing left come after those that have some, the one that has again soonest first; keys of weight 0 come
 * last. Nobody is shut out: what was told may be wrong, and then the upstream says so.
 */
const usedUpLast = (keys: readonly ProviderKey[], { left }: KeyView): readonly ProviderKey[] =>
  sortedBy(keys, (key) => {
    if (key.weight <= 0) return Number.POSITIVE_INFINITY
    const limit = left(key)
    return limit?.share === 0 ? limit.until : Number.NEGATIVE_INFINITY
  })

/** Two drawn by weight, the less loaded first; a key with half its quota left weighs half. */
const spread = (keys: readonly ProviderKey[], view: KeyView, random: () => number): readonly ProviderKey[] => {
  const weighed = keys.map((key) => {
    const weight = Math.max(0, key.weight) * Math.max(SCARCE, view.left(key)?.share ?? 1)
    return { key, weight, load: view.inFlight(key) / weight }
  })
  let rest = shuffled(weighed, ({ weight }) => weight, random)
  const chosen: ProviderKey[] = []
  for (;;) {
    const [first, second, ...others] = rest
    if (!first) return usedUpLast(chosen, view)
    const [winner, loser] = second && second.weight > 0 && second.load < first.load ? [second, first] : [first, second]
    chosen.push(winner.key)
    rest = loser ? [loser, ...others] : others
  }
}

/** No key gets more turns in a round than this, however the weights are written. */
const MOST_TURNS = 1_000

/** Keys take turns, a key of twice the weight twice in a round. The others follow in their order. */
const rotated = (keys: readonly ProviderKey[], turn: number): readonly ProviderKey[] => {
  const weights = keys.map(({ weight }) => weight).filter((weight) => weight > 0)
  const least = Math.min(...weights)
  const turns = keys.map(({ weight }) => (weight > 0 ? Math.min(MOST_TURNS, Math.round(weight / least)) : 0))
  const round = turns.reduce((sum, one) => sum + one, 0)
  if (round === 0) return keys
  let place = turn % round
  const first = turns.findIndex((mine) => {
    place -= mine
    return place < 0
  })
  const [from, until] = [keys.slice(first), keys.slice(0, first)]
  return sortedBy([...from, ...until], ({ weight }) => (weight > 0 ? 0 : 1))
}

/** How far above the mean of all a key may be loaded before its conversations go elsewhere. */
const ABOVE_MEAN = 1.25
/** So many more may always be under way, or a handful of requests would be torn from their caches for nothing. */
const SLACK = 4

/**
 * The favourites in their order, those that are loaded above their share after the others: consistent hashing with bounded
 * loads (Mirrokni, Thorup and Zadimoghaddam, 2016). What is hot spills over to its next favourite, always the same one.
 */
const sticky = (keys: readonly ProviderKey[], view: KeyView, affinity: string): readonly ProviderKey[] => {
  const total = keys.reduce((sum, key) => sum + view.inFlight(key), 0)
  const weights = keys.reduce((sum, { weight }) => sum + weight, 0)
  const isFull = (key: ProviderKey) => view.inFlight(key) > SLACK + (ABOVE_MEAN * total * key.weight) / weights
  const ranked = favourites(keys, affinity)
  return usedUpLast([...ranked.filter((key) => !isFull(key)), ...ranked.filter(isFull)], view)
}

/**
 * Rendezvous hashing: the same affinity prefers the same keys in the same order, and a key that comes or goes moves
 * only its own share. The draw of each key is its exponential waiting time, as in `shuffled`, from a hash.
 */
const favourites = (keys: readonly ProviderKey[], affinity: string): readonly ProviderKey[] => {
  const seed = hash(affinity, 0x811c9dc5)
  return sortedBy(keys, ({ id, weight }) => {
    const drawn = (hash(id, seed) + 1) / 4_294_967_297
    return -Math.log(drawn) / weight
  })
}

/** FNV-1a with MurmurHash3's last mix, which FNV needs for short texts to differ in every bit. */
const hash = (source: string, seed: number): number => {
  let mixed = seed
  for (let at = 0; at < source.length; at++) mixed = Math.imul(mixed ^ source.charCodeAt(at), 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
