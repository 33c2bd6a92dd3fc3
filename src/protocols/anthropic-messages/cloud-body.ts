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
  const surveyed = survey(text, DEEPEST)
  if (!surveyed.ok || !text.trimStart().startsWith('{')) return { text, betas: [], version: null }
  const kept: string[] = []
  const moved: { [key: string]: Json | undefined } = {}
  for (const { key, start, value, end } of surveyed.members)
    if (!REPLACED.has(key)) kept.push(text.slice(start, end))
    else moved[key] = readJson(text.slice(value, end))
  const { anthropic_beta: listed, anthropic_version: version } = moved
  const betas = isList(listed) ? listed.filter((beta) => typeof beta === 'string') : []
  const isOwn = typeof version === 'string' && /^20\d\d-\d\d-\d\d$/.test(version)
  return { text: `{${[head, ...kept].join(',')}}`, betas, version: isOwn ? version : null }
}

/** The members of a call with its model in the path. */
export const headOf = (model: string, stream: boolean): string =>
  `"model":${JSON.stringify(model)}${stream ? ',"stream":true' : ''}`
