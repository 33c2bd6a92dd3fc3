/** Applies the preferences of a request to what its client may use: a plan has no target that it would not have without them. */
import type { PriceOverride } from '../../core/accounts.ts'
import type { Require } from '../../core/data-policy.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { modelName } from '../../core/model-name.ts'
import type { Instance } from '../../core/provider.ts'
import type { Skipped } from '../../core/skipped-target.ts'
import type { Candidate, CandidatePreference } from '../../core/target.ts'
import { combined } from '../accounts/data-policy.ts'
import { satisfyingDraft } from './allowed-plan.ts'
import type { PermittedDraft } from './permitted-draft.ts'
import { AUTO, type CandidateGroup, type PlanDraft, quoted } from './plan.ts'
import {
  furtherModels,
  ignoredMembers,
  isNamed,
  MODEL_LISTS,
  NO_WISH,
  type ProviderWish,
  providerWish,
  readsPreference,
  type StatedPreferences,
} from './preferences.ts'

export type PreferredInput = {
  readonly stated: StatedPreferences
  /** The model that the request names, and what its client may use by that name. */
  readonly model: string
  readonly own: PermittedDraft
  /** The same for a further model. */
  readonly further: (model: string) => Outcome<PermittedDraft>
  /** The access of the client is limited: a provider must not choose among models by itself. */
  readonly isRestricted: boolean
  /** Undefined: unknown. */
  readonly pricesOf: (candidate: Candidate) => PriceOverride | undefined
}

/** A model of the request, and what may be used by its name. */
type NamedDraft = { readonly model: string; readonly draft: PlanDraft }

/**
 * The draft that the preferences leave. Fails with `invalid_value`, or with `no_matching_target` if nothing is left. If all targets of
 * the model read a member themselves, it is theirs, and the gateway does not judge it.
 */
export const preferredDraft = (input: PreferredInput): Outcome<PermittedDraft> => {
  const { stated, model, own, isRestricted } = input
  const isReadBy = (member: string) =>
    ownCandidates(own.draft).every(({ instance }) => readsPreference(instance, member))
  const lists = stated.members.filter((name) => MODEL_LISTS.includes(name))
  const passesLists = !isRestricted && own.require === null && lists.every(isReadBy)
  const listed = passesLists ? good([]) : furtherModels(stated)
  if (!listed.ok) return listed
  const read = providerWish(stated.body.provider)
  // The provider answers for what it reads. Others cannot follow it.
  const isTheirs = !read.ok && isReadBy('provider')
  if (!read.ok && !isTheirs) return read
  const wish = read.ok ? read.value : NO_WISH
  const named = namedDrafts(input, listed.value)
  const ignored = [...ignoredMembers(stated), ...wish.ignored]
  const preferenceOf = ({ provider }: Instance): CandidatePreference => ({
    without: stated.members.filter(
      (name) => !provider.readsPreferences?.includes(name) || (MODEL_LISTS.includes(name) && !passesLists),
    ),
    ignored,
    isStrict: wish.isStrict,
  })
  const left: NamedDraft[] = []
  let failure: Failure | null = null
  for (const one of named.drafts) {
    const kept = wishedDraft(one, wish, input, isTheirs)
    if (kept.ok) left.push({ ...one, draft: kept.value })
    else failure ??= kept.failure
  }
  if (left.length === 0) return bad(failure ?? nothingLeft(model, 'models', own.draft))
  const draft = withPreferences(merged(left, own.draft, model), preferenceOf)
  return good({ draft, require: named.require })
}

/** What may be used by each name: all of it satisfies what the routes of any of them require. */
const namedDrafts = (
  { model, own, further }: PreferredInput,
  models: readonly string[],
): { readonly drafts: readonly NamedDraft[]; readonly require: Require | null } => {
  if (models.length === 0) return { drafts: [{ model, draft: own.draft }], require: own.require }
  const found = models.flatMap((name) => {
    const permitted = further(name)
    // The default route stands for an unknown name of a request, not for one more of several.
    const isKnown = permitted.ok && (permitted.value.draft.by !== 'default' || modelName(name) === AUTO)
    return isKnown ? [{ model: name, ...permitted.value }] : []
  })
  const all = [{ model, ...own }, ...found]
  const require = combined(...all.map((one) => one.require))
  const drafts = all.flatMap(({ model: name, draft }) => {
    const satisfying = require ? satisfyingDraft(draft, require, name) : good(draft)
    return satisfying.ok ? [{ model: name, draft: satisfying.value }] : []
  })
  return { drafts, require }
}

const ownGroups = ({ by, groups }: PlanDraft): readonly CandidateGroup[] =>
  by === 'default' ? groups : groups.filter(({ own }) => own)

const ownCandidates = (draft: PlanDraft): readonly Candidate[] =>
  ownGroups(draft).flatMap(({ candidates }) => candidates)

/** `isTheirs`: the wish is not known, and only providers that read it themselves can follow it. */
const wishedDraft = (
  { model, draft }: NamedDraft,
  wish: ProviderWish,
  { pricesOf }: PreferredInput,
  isTheirs: boolean,
): Outcome<PlanDraft> => {
  const against = new Map<Candidate, string>()
  const groups = draft.groups.map((group) => ({
    ...group,
    candidates: group.candidates.filter((one) => {
      const member = isTheirs ? theirs(one) : memberAgainst(one, wish, pricesOf)
      if (member !== null) against.set(one, member)
      return member === null
    }),
  }))
  const left = { ...draft, groups }
  if (ownCandidates(left).length === 0) {
    const [member = 'provider'] = ownCandidates(draft).flatMap((one) => against.get(one) ?? [])
    return bad(nothingLeft(model, member, draft))
  }
  const skipped = [...against].map(
    ([{ instance, model: of }, member]): Skipped => ({
      provider: instance.id,
      model: of,
      why: `preference: ${member}`,
    }),
  )
  const ranked = rankedGroups(left, wish)
  const kept = new Set(ranked.flatMap(({ candidates }) => candidates))
  if (kept.size === 0) return bad(nothingLeft(model, 'provider.order', draft))
  const later = groups
    .flatMap(({ candidates }) => candidates)
    .filter((one) => !kept.has(one))
    .map(({ instance, model: of }) => ({
      provider: instance.id,
      model: of,
      why: 'preference: provider.allow_fallbacks',
    }))
  // An order of the client comes before what is remembered.
  const stickiness = wish.order === null ? draft.stickiness : 'off'
  return good({ ...left, groups: ranked, stickiness, skipped: [...draft.skipped, ...skipped, ...later] })
}

const theirs = ({ instance }: Candidate): string | null => (readsPreference(instance, 'provider') ? null : 'provider')

/** The member by which a candidate is excluded; null: none. A provider that reads the member applies it to its own vendors. */
const memberAgainst = (
  candidate: Candidate,
  { only, ignore, maxPrice }: ProviderWish,
  pricesOf: PreferredInput['pricesOf'],
): string | null => {
  const { instance } = candidate
  if (ignore.some((name) => isNamed(instance, name))) return 'provider.ignore'
  if (readsPreference(instance, 'provider')) return null
  if (only && !only.some((name) => isNamed(instance, name))) return 'provider.only'
  if (!maxPrice) return null
  const { input, output, factor = 1 } = pricesOf(candidate) ?? {}
  const fits = (price: number | undefined, most: number) =>
    most === Number.POSITIVE_INFINITY || (price !== undefined && price * factor <= most)
  const isWithin = !maxPrice.other && fits(input, maxPrice.input) && fits(output, maxPrice.output)
  return isWithin ? null : 'provider.max_price'
}

/** The groups in the order that is wanted. Targets for failover with another model stay last. */
const rankedGroups = (draft: PlanDraft, { order, sort, isFirstOnly }: ProviderWish): readonly CandidateGroup[] => {
  const { by, groups } = draft
  if (order === null && sort === null && !isFirstOnly) return groups
  const own = ownGroups(draft).filter(({ candidates }) => candidates.length > 0)
  if (isFirstOnly && order === null) return sortedBy(own.slice(0, 1), sort)
  // Providers of one model are of one rank, whichever of them the name states.
  const [first] = own
  const same = groups.filter((group) => own.includes(group) || group.isSameModel)
  const pools =
    by === 'route' || !first ? own : [{ ...first, candidates: same.flatMap(({ candidates }) => candidates) }]
  const rest = groups.filter((group) => !own.includes(group) && (by === 'route' || !group.isSameModel))
  const sorted = sortedBy(pools, sort)
  if (order === null) return [...sorted, ...rest]
  const ranked = sorted.map((group) => byOrder(group, order))
  if (isFirstOnly) return ranked.flatMap(({ first: named }) => named)
  return [...ranked.flatMap(({ first: named, others }) => [...named, others]), ...rest]
}

const sortedBy = (groups: readonly CandidateGroup[], sort: ProviderWish['sort']): readonly CandidateGroup[] =>
  sort === null ? groups : groups.map((group) => ({ ...group, strategy: sort }))

/** A group as groups by `provider.order`: those that it names, those that read it themselves, and the others. */
const byOrder = (
  group: CandidateGroup,
  order: readonly string[],
): { readonly first: readonly CandidateGroup[]; readonly others: CandidateGroup } => {
  const tests = [
    ...order.map(
      (name) =>
        ({ instance }: Candidate) =>
          isNamed(instance, name),
    ),
    ({ instance }: Candidate) => readsPreference(instance, 'provider'),
  ]
  let others = group.candidates
  const first = tests.map((isNext) => {
    const candidates = others.filter(isNext)
    others = others.filter((one) => !isNext(one))
    return { ...group, candidates }
  })
  return { first: first.filter(({ candidates }) => candidates.length > 0), others: { ...group, candidates: others } }
}

/** One draft of all models, in their order. Targets for failover with another model come last. */
const merged = (named: readonly NamedDraft[], own: PlanDraft, model: string): PlanDraft => {
  const [only] = named
  if (only && named.length === 1 && only.model === model) return only.draft
  const isFirst = (group: CandidateGroup, { by }: PlanDraft) =>
    by === 'default' || group.own || group.isSameModel === true
  const first = named.flatMap(({ model: name, draft }) =>
    draft.groups
      .filter((group) => isFirst(group, draft))
      .map((group) => (name === model ? group : forModel(group, name))),
  )
  const rest = named.flatMap(({ draft }) => draft.groups.filter((group) => !isFirst(group, draft)))
  const routes = named.flatMap(({ draft }) => draft.route ?? [])
  return {
    ...own,
    groups: [...first, ...rest],
    repeats: true,
    stickiness: named[0]?.draft.stickiness ?? own.stickiness,
    skipped: named.flatMap(({ draft }) => draft.skipped),
    furtherRoutes: routes.filter((route) => route !== own.route),
  }
}

const forModel = (group: CandidateGroup, model: string): CandidateGroup => ({
  ...group,
  candidates: group.candidates.map((one) => ({
    ...one,
    because: `${one.because}, for the further model ${quoted(model)}`,
  })),
})

const withPreferences = (draft: PlanDraft, preferenceOf: (instance: Instance) => CandidatePreference): PlanDraft => {
  const known = new Map<Instance['provider'], CandidatePreference>()
  const of = (instance: Instance): CandidatePreference => {
    const before = known.get(instance.provider) ?? preferenceOf(instance)
    known.set(instance.provider, before)
    return before
  }
  const groups = draft.groups.map((group) => ({
    ...group,
    candidates: group.candidates.map((one) => ({ ...one, preference: of(one.instance) })),
  }))
  return { ...draft, groups }
}

const nothingLeft = (model: string, member: string, draft: PlanDraft): Failure => {
  const candidates = ownCandidates(draft)
  const names = [...new Set(candidates.map(({ instance }) => instance.id))]
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : ''
  return fail(
    'no_matching_target',
    `No target of ${quoted(model)} is left by \`${member}\`. Its providers are ${names.slice(0, MAX_NAMED).join(', ')}${more}.`,
    {
      param: member,
      withheld: {
        targets: candidates
          .slice(0, MAX_TRAIL)
          .map(({ instance, model: of }) => ({ provider: instance.id, model: of, key: '', why: 'preference' })),
      },
    },
  )
}
const MAX_NAMED = 5
const MAX_TRAIL = 12
