/**
 * Conditions of targets (`when`): ten facts of a request, all of which must hold. There is no "or": two targets are one. A
 * condition is compiled once for its configuration, and evaluated once for a request.
 */
import type { Client } from '../../core/accounts.ts'
import type { ChatRequest, Tool } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import {
  type ConditionFact,
  MEDIA_KINDS,
  type MediaKind,
  type Patterns,
  type TargetCondition,
} from '../../core/target-condition.ts'
import { exactGlob, type Glob, matchesGlob } from '../accounts/glob.ts'
import { estimateTokens } from './estimate-tokens.ts'

/** The request as conditions see it. */
export type RequestFacts = {
  readonly client: Pick<Client, 'id' | 'name' | 'team' | 'user' | 'tags'>
  readonly style: string
  readonly headers: HeaderLookup
  readonly shape: RequestShape
}

/** The content of a request; its members are read only if a condition names them. */
export type RequestShape = {
  readonly inputTokens: () => number
  /** Null: it has no messages, such as one for embeddings. It has no tools, media and effort then. */
  readonly chat: Pick<ChatRequest, 'messages' | 'tools' | 'extras' | 'settings'> | null
}

/** The shape of a chat request. Its tokens are estimated at most once. */
export const chatShape = (chat: ChatRequest): RequestShape => {
  let tokens: number | undefined
  return { chat, inputTokens: () => (tokens ??= estimateTokens(chat)) }
}

/** The shape of a request without messages. */
export const plainShape = (inputTokens: () => number): RequestShape => ({ chat: null, inputTokens })

/** The first fact that does not hold. `text`: for clients, so it names no patterns of the operator: `team does not match`. */
export type Unmet = { readonly fact: ConditionFact; readonly text: string }

/** One fact of a condition; returns why it does not hold, or null. */
type Test = (facts: RequestFacts) => Unmet | null

/** Why a request does not meet a condition; null: it does. */
export const unmet = (condition: TargetCondition, facts: RequestFacts): Unmet | null => {
  for (const test of testsOf(condition)) {
    const found = test(facts)
    if (found) return found
  }
  return null
}

/** Names first, since they cost least; the estimate of tokens is last. */
const testsOf = memoizeBy(
  ({
    team,
    key,
    user,
    style,
    tag = {},
    header = {},
    inputTokens,
    tools,
    media,
    effort,
  }: TargetCondition): readonly Test[] => [
    ...named('style', style, (facts) => [facts.style]),
    ...named('team', team, ({ client }) => [client.team.id, client.team.name]),
    ...named('key', key, ({ client }) => (client.id === '' ? NONE : [client.id, client.name])),
    ...named('user', user, ({ client }) => (client.user === null ? NONE : [client.user])),
    ...Object.entries(tag).flatMap(([name, patterns]) =>
      named('tag', patterns, ({ client: { tags } }) => (Object.hasOwn(tags, name) ? [tags[name] ?? ''] : NONE), name),
    ),
    ...Object.entries(header).flatMap(([name, patterns]) => {
      const lower = name.toLowerCase()
      return named('header', patterns, ({ headers }) => valuesOf(headers(lower)), name)
    }),
    ...(effort === undefined ? [] : [effortTest(effort)]),
    ...(tools === undefined ? [] : [toolsTest(tools)]),
    ...(media === undefined ? [] : [mediaTest(media)]),
    ...(inputTokens === undefined ? [] : [tokensTest(inputTokens)]),
  ],
)

const NONE: readonly string[] = []
const valuesOf = (value: string | undefined): readonly string[] => (value === undefined ? NONE : [value])

/** A fact with names. `of`: the tag or header. No name: only a condition of exclusions alone holds. */
const named = (
  fact: ConditionFact,
  patterns: Patterns | undefined,
  namesOf: (facts: RequestFacts) => readonly string[],
  of?: string,
): readonly Test[] => {
  if (patterns === undefined) return []
  const all = typeof patterns === 'string' ? [patterns] : patterns
  const wanted = all.filter((one) => !one.startsWith('!')).map(exactGlob)
  const excluded = all.filter((one) => one.startsWith('!')).map((one) => exactGlob(one.slice(1)))
  const missed = { fact, text: `${of === undefined ? fact : `${fact} ${of}`} does not match` }
  return [
    (facts) => {
      const names = namesOf(facts)
      const isWanted = wanted.length === 0 || matchesAny(wanted, names)
      return isWanted && !matchesAny(excluded, names) ? null : missed
    },
  ]
}

const matchesAny = (globs: readonly Glob[], names: readonly string[]): boolean => {
  for (const glob of globs) for (const name of names) if (matchesGlob(glob, name)) return true
  return false
}

const effortTest = (levels: NonNullable<TargetCondition['effort']>): Test => {
  const wanted = new Set<string>(levels)
  return ({ shape: { chat } }) => {
    const level = chat?.settings.effort?.value ?? 'none'
    return wanted.has(level) ? null : { fact: 'effort', text: `effort ${level} is not ${levels.join(' or ')}` }
  }
}

const kindOf = ({ kind }: Tool) => (kind === 'foreign' ? 'hosted' : kind)

/** Tools that the provider runs may also be requested by a member of their own (`web_search_options`). */
const hasHostedMember = ({ extras }: NonNullable<RequestShape['chat']>): boolean =>
  extras.some(({ optional }) => optional === true)

const toolsTest = (wanted: NonNullable<TargetCondition['tools']>): Test => {
  if (wanted === true || wanted === false)
    return ({ shape: { chat } }) => {
      const has = chat !== null && (chat.tools.length > 0 || hasHostedMember(chat))
      return has === wanted ? null : { fact: 'tools', text: has ? 'the request has tools' : 'the request has no tools' }
    }
  const missed: Unmet = { fact: 'tools', text: `the request has no tools of the kind ${wanted.join(' or ')}` }
  return ({ shape: { chat } }) => {
    if (!chat) return missed
    const has =
      chat.tools.some((tool) => wanted.includes(kindOf(tool))) || (wanted.includes('hosted') && hasHostedMember(chat))
    return has ? null : missed
  }
}

const isMedia = (type: string): type is MediaKind => MEDIA_KINDS.some((kind) => kind === type)

const mediaTest = (wanted: NonNullable<TargetCondition['media']>): Test => {
  const missed: Unmet = { fact: 'media', text: `the request has no ${wanted.join(' or ')}` }
  return ({ shape: { chat } }) => {
    for (const { content } of chat?.messages ?? [])
      for (const { type } of content) {
        if (!isMedia(type)) continue
        if (wanted.length === 0) return { fact: 'media', text: `the request has media (${type})` }
        if (wanted.includes(type)) return null
      }
    return wanted.length === 0 ? null : missed
  }
}

const tokensTest =
  ({ from, below }: NonNullable<TargetCondition['inputTokens']>): Test =>
  ({ shape }) => {
    const tokens = shape.inputTokens()
    const missed = (limit: string): Unmet => ({
      fact: 'inputTokens',
      text: `inputTokens ${grouped(tokens)} is ${limit}`,
    })
    if (from !== undefined && tokens < from) return missed(`below ${grouped(from)}`)
    return below !== undefined && tokens >= below ? missed(`not below ${grouped(below)}`) : null
  }

/** `81,000`. */
const grouped = (count: number): string => count.toLocaleString('en')

/** The headers that conditions of a configuration read, in lower case. */
export const conditionHeaders = ({ routes, rules = [] }: Pick<Config, 'routes' | 'rules'>): readonly string[] => {
  const targets = [...routes.values()].flatMap((route) => [...route.targets, ...route.fallback])
  const names = [...targets, ...rules].flatMap(({ when }) => Object.keys(when?.header ?? {}))
  return [...new Set(names.map((name) => name.toLowerCase()))].toSorted()
}

/** A condition as one line, for operators: `team research; inputTokens below 50,000; tools no`. */
export const conditionText = ({ tag, header, inputTokens, tools, media, effort, ...names }: TargetCondition): string =>
  [
    ...Object.entries(names).map(([fact, patterns]) => `${fact} ${listed(patterns)}`),
    ...Object.entries(tag ?? {}).map(([name, patterns]) => `tag ${name} ${listed(patterns)}`),
    ...Object.entries(header ?? {}).map(([name, patterns]) => `header ${name} ${listed(patterns)}`),
    ...(inputTokens?.from === undefined ? [] : [`inputTokens from ${grouped(inputTokens.from)}`]),
    ...(inputTokens?.below === undefined ? [] : [`inputTokens below ${grouped(inputTokens.below)}`]),
    ...(tools === undefined ? [] : [`tools ${typeof tools === 'boolean' ? (tools ? 'yes' : 'no') : listed(tools)}`]),
    ...(media === undefined ? [] : [`media ${media.length === 0 ? 'none' : listed(media)}`]),
    ...(effort === undefined ? [] : [`effort ${listed(effort)}`]),
  ].join('; ')

const listed = (patterns: Patterns | undefined): string =>
  typeof patterns === 'string' ? patterns : (patterns ?? []).join(' or ')
