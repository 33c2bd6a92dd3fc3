/** Maps the members of `litellm_params` that are settings of a target here. */

import type { RowCollector } from './imported.ts'
import { isMembers, listOf, type SourceMembers, type SourcePath } from './source.ts'
import { PARAMETER_NAMES, SettingCollector, type TargetSettings } from './target-settings.ts'

export const TARGET_MEMBERS = [
  ...['timeout', 'stream_timeout', 'num_retries', 'max_retries', 'tags', 'cache_control_injection_points'],
  ...PARAMETER_NAMES,
]

/** The tags of all deployments of one name; null: they cannot become conditions; undefined: tags select nothing. */
export type GroupTags = ReadonlySet<string> | null | undefined

export type TargetPlace = {
  /** The path of a member of `litellm_params`. */
  readonly at: (member: string) => SourcePath
  readonly kind: string
  readonly tags: GroupTags
  readonly rows: RowCollector
}

/** Providers whose requests can have cache breakpoints. */
const TAKES_BREAKPOINTS: readonly string[] = ['anthropic', 'bedrock', 'vertex']

/** Clients of LiteLLM send tags in this header, separated by commas (docs.litellm.ai/docs/proxy/request_tags). */
const TAGS_HEADER = 'x-litellm-tags'
/** Deployments with this tag receive requests whose tags no other deployment has. */
const DEFAULT_TAG = 'default'
/** A condition has at most 100 patterns, and a tag needs 6. */
const MOST_TAGS = 16

/** All places of a tag in a list with commas, with or without a space. */
const patternsFor = (tags: Iterable<string>): readonly string[] =>
  [...tags].flatMap((tag) => [tag, `${tag},*`, `*,${tag}`, `*, ${tag}`, `*,${tag},*`, `*, ${tag},*`])

const isTag = (value: unknown): value is string =>
  typeof value === 'string' && /^[^!&*,\s](?:[^*,]{0,126}[^*,\s])?$/.test(value)

const tagsOf = (params: unknown): readonly string[] | undefined => {
  const tags = isMembers(params) ? listOf(params.tags) : []
  return tags.every(isTag) ? tags : undefined
}

/** The tags of the deployments of each name. */
export const tagsByName = (entries: readonly unknown[], router: SourceMembers): ReadonlyMap<unknown, GroupTags> => {
  const found = new Map<unknown, GroupTags>()
  if (router.enable_tag_filtering !== true || router.tag_filtering_match_any === false) return found
  for (const entry of entries) {
    if (!isMembers(entry)) continue
    const before = found.get(entry.model_name)
    const tags = tagsOf(entry.litellm_params)
    if (before === null || tags === undefined) found.set(entry.model_name, null)
    else found.set(entry.model_name, new Set([...(before ?? []), ...tags]))
  }
  for (const [name, tags] of found) if (tags && tags.size > MOST_TAGS) found.set(name, null)
  return found
}

const NO_TAGS = 'a label here: usage is by provider and model'
const BAD_TAGS = `only up to ${MOST_TAGS} plain tags of a route become conditions: write \`when\``

/** The conditions that stand for the tags of a deployment; undefined: it receives every request of its name. */
const conditionsOf = (own: readonly string[], all: ReadonlySet<string>): readonly SourceMembers[] | undefined => {
  const header = (patterns: readonly string[]) => ({ header: { [TAGS_HEADER]: patterns } })
  const untagged = header(['!*'])
  if (own.length === 0) return all.size === 0 ? undefined : [untagged]
  if (!own.includes(DEFAULT_TAG)) return [header(patternsFor(own)), ...(all.has(DEFAULT_TAG) ? [] : [untagged])]
  const others = [...all].filter((tag) => tag !== DEFAULT_TAG && !own.includes(tag))
  return others.length === 0 ? undefined : [header(patternsFor(others).map((pattern) => `!${pattern}`))]
}

/** The conditions of a deployment, with the row of its tags. */
export const readTags = (
  params: SourceMembers,
  { at, tags, rows }: TargetPlace,
  isRoute: boolean,
): readonly SourceMembers[] | undefined => {
  const own = tagsOf(params)
  if (!tags || !own || !isRoute) {
    if ('tags' in params) rows.leaveOut(at('tags'), tags === undefined ? NO_TAGS : BAD_TAGS)
    return undefined
  }
  const conditions = conditionsOf(own, tags)
  if ('tags' in params && conditions)
    rows.changed(
      at('tags'),
      'when of the target',
      `by the header ${TAGS_HEADER}; tags in bodies and of keys do not count`,
    )
  else if ('tags' in params) rows.taken(at('tags'), 'the target receives every request of its name')
  return conditions
}

/** The settings of the target of an entry. `params`: its members, with those of its credential. */
export const readTargetSettings = (params: SourceMembers, place: TargetPlace): TargetSettings => {
  const { at, kind, rows } = place
  const settings = new SettingCollector(rows)
  const { timeout, stream_timeout: stream, cache_control_injection_points: points } = params
  if (timeout !== undefined) settings.time(at('timeout'), timeout, { name: 'request', unitMs: 1_000, why: null })
  if (stream !== undefined) {
    const why = 'until the first content of a stream'
    settings.time(at('stream_timeout'), stream, { name: 'firstContent', unitMs: 1_000, why })
  }
  for (const name of ['num_retries', 'max_retries'])
    if (params[name] !== undefined) settings.retries(at(name), params[name])
  const pointsAt = at('cache_control_injection_points')
  if (listOf(points).length > 0 && TAKES_BREAKPOINTS.includes(kind))
    settings.breakpoints(pointsAt, 'after the instructions and the last message, for Claude')
  else if (listOf(points).length > 0)
    rows.leaveOut(pointsAt, 'only Claude at Anthropic, Bedrock and Vertex AI needs them')
  for (const name of PARAMETER_NAMES)
    if (params[name] !== undefined) settings.parameter(at(name), 'default', [name, params[name]])
  return settings
}
