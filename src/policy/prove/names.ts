/**
 * The names that stand for all that clients may send as `model`: every route and listed name, `auto`, one unknown name, and for
 * each glob of facts and of an access list one name that it matches, alone and together. Names that providers may list later are
 * among these: what may be reached by a name depends on the lists that match it, and on nothing else.
 */
import { type Glob, matchesGlob, parseGlob } from '../accounts/glob.ts'
import type { KeyAccessRules } from '../accounts/key-access.ts'
import { isGlobRoute, listModels, type ModelSources, usableInstances } from '../routing/models.ts'
import { AUTO } from '../routing/plan.ts'

/** A name that no list has. */
const UNLISTED = 'headgate-unlisted'

/** What stands for `*`: nothing, a text, and a version, since versions of a model are treated like it in some lists. */
const FILLINGS = ['', UNLISTED, '-2026-01-01']

/** The names of a configuration, for every client. */
export const namesOf = ({ config, lists, catalogue }: ModelSources): ReadonlySet<string> => {
  const names = new Set([AUTO, UNLISTED, ...config.routes.keys()])
  for (const route of config.routes.values())
    if (isGlobRoute(route)) for (const name of matching(parseGlob(route.name))) names.add(name)
  for (const { id } of listModels(config, lists, catalogue)) names.add(id)
  for (const { place, globs } of placesIn(config)) {
    names.add(`${place}/`)
    names.add(`${place}/${UNLISTED}`)
    for (const glob of globs)
      for (const name of matching(glob)) {
        names.add(name)
        names.add(`${place}/${name}`)
      }
  }
  return names
}

/** The names that the access lists of a client add: it may use only what they match. */
export const namesAllowedBy = (
  { config }: Pick<ModelSources, 'config'>,
  rules: KeyAccessRules,
): ReadonlySet<string> => {
  const names = new Set<string>()
  const allowed = rules.models.flatMap((list) => list.allowed)
  const places = placesIn(config)
  for (const glob of allowed) {
    for (const name of matching(glob)) names.add(name)
    for (const { place, globs } of places) {
      for (const name of matching(glob)) names.add(`${place}/${name}`)
      const before = parseGlob(`${place}/*`)
      for (const name of meeting(glob, before)) names.add(name)
      for (const facts of globs)
        for (const name of [
          ...meeting(glob, facts).flatMap((one) => [one, `${place}/${one}`]),
          ...meeting(glob, within(place, facts)),
        ])
          names.add(name)
    }
    for (const other of allowed) if (other !== glob) for (const name of meeting(glob, other)) names.add(name)
  }
  return names
}

/** Each name before the slash, with the globs of facts of its instance. */
const placesIn = (config: ModelSources['config']) =>
  usableInstances(config).flatMap(({ id, provider, facts }) => {
    const globs = Object.keys(facts?.models ?? {}).map(parseGlob)
    const places = provider.generic ? [id] : [...new Set([id, provider.name, ...(provider.aliases ?? [])])]
    return places.map((place) => ({ place, globs }))
  })

const within = (place: string, { first, middle, last }: Glob): Glob => ({ first: `${place}/${first}`, middle, last })

/** Names that a glob matches. */
const matching = ({ first, middle, last }: Glob): readonly string[] =>
  last === null
    ? [first, `${first}${FILLINGS[2]}`]
    : FILLINGS.map((filling) => `${first}${middle.join(filling)}${filling}${last}`)

/** Names that both globs match; empty: none was found. */
const meeting = (one: Glob, other: Glob): readonly string[] => {
  if (one.last === null) return matchesGlob(other, one.first) ? [one.first] : []
  if (other.last === null) return meeting(other, one)
  const first = one.first.startsWith(other.first) ? one.first : other.first
  const last = one.last.endsWith(other.last) ? one.last : other.last
  return FILLINGS.map((filling) => [first, ...one.middle, ...other.middle, `${filling}${last}`].join('')).filter(
    (name) => matchesGlob(one, name) && matchesGlob(other, name),
  )
}
