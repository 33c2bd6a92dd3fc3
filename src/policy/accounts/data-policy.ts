/**
 * The data policy: which targets satisfy what a request requires of its data. A filter, never a ranking. Requirements of several
 * scopes must all hold, so a narrower scope only tightens. A fact that is not declared satisfies nothing.
 */
import {
  type DataFacts,
  type DeclaredFacts,
  type FactName,
  MAX_REQUIRE,
  NO_REQUIRE,
  REGION,
  REQUIRE_HEADER,
  type Require,
} from '../../core/data-policy.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { type JsonObject, object } from '../../core/json.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import { modelName, modelNames } from '../../core/model-name.ts'
import type { Instance } from '../../core/provider.ts'
import { type Glob, matchesGlob, parseGlob } from './glob.ts'

/** The facts of an instance that count here. */
type FactsSource = Pick<Instance, 'facts'>
/** A model at an instance. */
type Placed = { readonly instance: FactsSource; readonly model: string }

// ── Facts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * All facts that may hold for a model at an instance; a requirement must hold for each. The longest glob that matches the name of
 * the model decides; the facts of models of which it is a version hold beside them, because a name does not prove which is served.
 */
export const dataFacts = ({ facts }: FactsSource, model: string): readonly DataFacts[] => {
  if (!facts) return NO_FACTS
  if (!facts.models) return [facts]
  const { models, ...base } = facts
  const globs = globsOf(models)
  const { name, kin, variantOf } = modelNames(model)
  const bestFor = (one: string) => globs.find(({ glob }) => matchesGlob(glob, one))
  const own = bestFor(name)
  const applying = new Set(own?.isName ? [own] : [own, ...[...kin, ...variantOf].flatMap((one) => bestFor(one) ?? [])])
  return [...applying].map((one) => ({ ...base, ...one?.facts }))
}

/** All facts that an instance has for any model. */
export const declaredFacts = ({ facts }: FactsSource): readonly DataFacts[] => {
  if (!facts) return NO_FACTS
  const { models = {}, ...base } = facts
  return [base, ...Object.values(models).map((one) => ({ ...base, ...one }))]
}

const NO_FACTS: readonly DataFacts[] = [{}]

type FactsGlob = { readonly glob: Glob; readonly isName: boolean; readonly facts: DataFacts }

/** The globs in the order in which they apply: names first, then the longest. */
const globsOf = memoizeBy((models: NonNullable<DeclaredFacts['models']>): readonly FactsGlob[] =>
  Object.entries(models)
    .map(([text, facts]) => ({
      glob: parseGlob(modelName(text)),
      isName: !text.includes('*'),
      facts,
      size: text.length,
    }))
    .sort((a, b) => Number(b.isName) - Number(a.isName) || b.size - a.size),
)

// ── Requirements ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether the label is the region or a part of it: `eu` contains `eu-de`. */
const contains = (region: string, label: string): boolean => label === region || label.startsWith(`${region}-`)

/** Whether nothing is required. */
const isEmpty = ({ region, retention, training }: Require): boolean =>
  region === null && retention === null && training === null

/** All of these requirements as one; null: nothing is required. */
export const combined = (...scopes: readonly (Require | null | undefined)[]): Require | null => {
  let all: Require | null = null
  for (const one of scopes) if (one && !isEmpty(one)) all = all === null || all === one ? one : both(all, one)
  return all
}

const both = (a: Require, b: Require): Require => ({
  region: a.region && b.region ? common(a.region, b.region) : (a.region ?? b.region),
  retention:
    a.retention !== null && b.retention !== null ? Math.min(a.retention, b.retention) : (a.retention ?? b.retention),
  training: a.training ?? b.training,
})

/** The regions in which two lists meet: of a region and a part of it, the part. */
const common = (a: readonly string[], b: readonly string[]): readonly string[] => [
  ...new Set([
    ...a.filter((one) => b.some((other) => contains(other, one))),
    ...b.filter((one) => a.some((other) => contains(other, one))),
  ]),
]

/** The first fact of a target that does not satisfy a requirement. `stated`: undefined: it is not declared. */
export type Lack = { readonly fact: FactName; readonly stated: string | number | boolean | undefined }

/** What a model at an instance lacks of a requirement; null: it satisfies it. */
export const lackOf = (require: Require, { instance, model }: Placed): Lack | null => {
  for (const facts of dataFacts(instance, model)) {
    const lack = lackIn(require, facts)
    if (lack) return lack
  }
  return null
}

/** The first of these facts that does not satisfy a requirement; null: all do. */
export const lackIn = (require: Require, { region, retention, training }: DataFacts): Lack | null => {
  if (require.region !== null && !require.region.some((one) => region !== undefined && contains(one, region)))
    return { fact: 'region', stated: region }
  if (require.retention !== null && !(retention !== undefined && retention <= require.retention))
    return { fact: 'retention', stated: retention }
  if (require.training !== null && training !== false) return { fact: 'training', stated: training }
  return null
}

/**
 * What an instance would have to declare for a model to satisfy a requirement, with values that do; null: what it declares is
 * against it. Not empty, unless it satisfies it.
 */
export const missingFacts = (require: Require, { instance, model }: Placed): DataFacts | null => {
  const wanted: DataFacts = {
    ...(require.region !== null && { region: require.region[0] }),
    ...(require.retention !== null && { retention: require.retention }),
    ...(require.training !== null && { training: require.training }),
  }
  const declared = dataFacts(instance, model)
  const { region, retention, training } = wanted
  const completed = declared.map((facts) => ({
    region: facts.region ?? region,
    retention: facts.retention ?? retention,
    training: facts.training ?? training,
  }))
  if (completed.some((facts) => lackIn(require, facts) !== null)) return null
  const isMissing = (name: FactName) => declared.some((facts) => facts[name] === undefined)
  return {
    ...(region !== undefined && isMissing('region') && { region }),
    ...(retention !== undefined && isMissing('retention') && { retention }),
    ...(training !== undefined && isMissing('training') && { training }),
  }
}

// ── Texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A requirement in the form of the header: `region=eu,local; retention=0; training=no`. */
export const requireText = ({ region, retention, training }: Require): string =>
  [
    ...(region === null ? [] : [`region=${region.join(',')}`]),
    ...(retention === null ? [] : [`retention=${retention}`]),
    ...(training === null ? [] : ['training=no']),
  ].join('; ')

/** A lack as a short text: `region us`, `retention not declared`, `training yes`. */
export const lackText = ({ fact, stated }: Lack): string => {
  if (stated === undefined) return `${fact} not declared`
  return `${fact} ${typeof stated === 'boolean' ? (stated ? 'yes' : 'no') : stated}`
}

/** Facts as an operator writes them in a file: `{ region: "eu", retention: 0 }`. */
export const factsText = (facts: DataFacts): string =>
  `{ ${Object.entries(facts)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(', ')} }`

const CONDITION = 'region=eu,local; retention=0; training=no'

/** Parses a requirement in the form of the header. Problems are texts for the error. */
export const parseRequire = (text: string): Outcome<Require> => {
  let require: { -readonly [name in FactName]: Require[name] } = { ...NO_REQUIRE }
  const named = new Set<string>()
  for (const part of text.split(';')) {
    const equals = part.indexOf('=')
    const name = part.slice(0, Math.max(0, equals)).trim().toLowerCase()
    const value = part
      .slice(equals + 1)
      .trim()
      .toLowerCase()
    if (part.trim() === '') continue
    const condition = conditionOf(name, value)
    if (!condition || named.has(name))
      return bad(
        invalid(
          `${JSON.stringify(part.trim().slice(0, 60))} is ${named.has(name) ? 'a second condition of one fact' : 'no condition'}`,
        ),
      )
    named.add(name)
    require = { ...require, ...condition }
  }
  return named.size > 0 ? good(require) : bad(invalid('it has no condition'))
}

const conditionOf = (name: string, value: string): Partial<Require> | null => {
  switch (name) {
    case 'region': {
      const region = value.split(',').map((one) => one.trim())
      return region.length <= MAX_REQUIRE.regions && region.every((one) => REGION.test(one)) ? { region } : null
    }
    case 'retention':
      return /^[0-9]{1,5}$/.test(value) && Number(value) <= MAX_REQUIRE.days ? { retention: Number(value) } : null
    case 'training':
      return value === 'no' || value === 'false' ? { training: false } : null
    default:
      return null
  }
}

const invalid = (problem: string): Failure =>
  fail('invalid_value', `${REQUIRE_HEADER} is not valid: ${problem}. Write it as ${CONDITION}, or a part of it.`, {
    param: REQUIRE_HEADER,
  })

// ── The request's own ───────────────────────────────────────────────────────────────────────────────────────────────

/** The members of OpenRouter's `provider` that require something of the data. */
const POLICY_MEMBERS = ['zdr', 'data_collection']

/**
 * What a body requires by OpenRouter's `provider` (openrouter.ai/docs/guides/routing/provider-selection): `zdr: true` no
 * retention, `data_collection: "deny"` no training. Null: nothing.
 */
const requireIn = ({ provider }: JsonObject): Outcome<Require | null> => {
  if (provider === undefined) return NOTHING
  const { zdr, data_collection: collection } = object(provider) ?? {}
  if (zdr !== undefined && zdr !== null && typeof zdr !== 'boolean')
    return bad(fail('invalid_value', '`provider.zdr` must be true or false.', { param: 'provider.zdr' }))
  if (collection !== undefined && collection !== null && collection !== 'deny' && collection !== 'allow')
    return bad(
      fail('invalid_value', '`provider.data_collection` must be "deny" or "allow".', {
        param: 'provider.data_collection',
      }),
    )
  return good(
    combined(
      zdr === true ? { ...NO_REQUIRE, retention: 0 } : null,
      collection === 'deny' ? { ...NO_REQUIRE, training: false } : null,
    ),
  )
}

const NOTHING = good(null)

/** What a request requires itself, by its header and its body; null: nothing. */
export const requestRequire = (header: string | undefined, body: JsonObject): Outcome<Require | null> => {
  const own = requireIn(body)
  if (header === undefined || !own.ok) return own
  const parsed = parseRequire(header)
  return parsed.ok ? good(combined(parsed.value, own.value)) : parsed
}

/** Whether the member `provider` of a body states the policy and nothing else, so that leaving it out loses nothing. */
export const isPolicyOnly = (body: JsonObject): boolean =>
  body.provider !== undefined && withoutPolicyMembers(body).provider === undefined

/** The body without the members that state the policy, which the gateway has applied. Returns the same object if it has none. */
export const withoutPolicyMembers = (body: JsonObject): JsonObject => {
  const provider = body.provider === undefined ? undefined : object(body.provider)
  if (!provider || !POLICY_MEMBERS.some((name) => Object.hasOwn(provider, name))) return body
  const rest = Object.fromEntries(Object.entries(provider).filter(([name]) => !POLICY_MEMBERS.includes(name)))
  const { provider: _, ...others } = body
  return Object.keys(rest).length === 0 ? others : { ...others, provider: rest }
}
