/** Bodies of Claude at clouds and at Anthropic: what is in the path there is in the body here, and betas in the header. */
import { isList, type Json, readJson } from '../../core/json.ts'
import { DEEPEST, survey } from '../../core/json-text.ts'

/** Members that the path, the gateway or a header replaces. */
const REPLACED: ReadonlySet<string> = new Set(['model', 'stream', 'anthropic_version', 'anthropic_beta'])

/** A body at Anthropic, with the betas and the version of its API that were in it. Null: a version of the cloud, or none. */
export type PlainBody = { readonly text: string; readonly betas: readonly string[]; readonly version: string | null }

/**
 * The body with this model and stream; other members keep their bytes. A text that is no JSON object stays as it is, and is refused
 * later. `head`: the members in front, as JSON without braces.
 */
export const ownBody = (text: string, head: string): PlainBody => {
  const unchanged = { text, betas: [], version: null }
  const surveyed = survey(text, DEEPEST)
  if (!surveyed.ok) return unchanged
  const kept: string[] = []
  const moved: { [key: string]: Json | undefined } = {}
  /** The text between members, which the survey does not check. */
  let between = ''
  let last = 0
  for (const { key, start, value, end } of surveyed.members) {
    between += text.slice(last, start)
    last = end
    if (!REPLACED.has(key)) {
      kept.push(text.slice(start, end))
      continue
    }
    moved[key] = readJson(text.slice(value, end))
    if (moved[key] === undefined) return unchanged
  }
  const outside = between + text.slice(last)
  const commas = Math.max(0, surveyed.members.length - 1)
  if (!OUTSIDE.test(outside) || outside.split(',').length - 1 !== commas) return unchanged
  const { anthropic_beta: listed, anthropic_version: version } = moved
  const betas = isList(listed) ? listed.filter((beta) => typeof beta === 'string') : []
  const isOwn = typeof version === 'string' && /^20\d\d-\d\d-\d\d$/.test(version)
  return { text: `{${[head, ...kept].join(',')}}`, betas, version: isOwn ? version : null }
}

/** What is outside of the members of an object. */
const OUTSIDE = /^\s*\{[\s,]*\}\s*$/

/** The members of a call with its model in the path. */
export const headOf = (model: string, stream: boolean): string =>
  `"model":${JSON.stringify(model)}${stream ? ',"stream":true' : ''}`
