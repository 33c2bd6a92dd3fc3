/**
 * Paths of clients for Azure OpenAI, which cannot be given other paths: `/openai/deployments/{deployment}/chat/completions`,
 * `/openai/v1/responses`, `/openai/responses`. They send the key as `api-key`, and a query that is ignored.
 */

import { isTextBody, type RequestBody } from '../core/http-exchange.ts'
import { parseObject } from '../core/json.ts'
import { percentDecoded } from '../core/percent-decoded.ts'
import { RELAY_ROWS } from '../core/relay.ts'
import { findRoute } from './routes.ts'

const PREFIX = '/openai/'
const DEPLOYMENTS = '/openai/deployments/'
/** The calls of a deployment. */
const CALLS = ['/chat/completions', '/completions', '/embeddings', ...RELAY_ROWS.map(([, { path }]) => path)]

/** A path with its equivalent below `/v1`, and the deployment that it names. */
type DeploymentPath = { readonly path: string; readonly deployment?: string }

/** The path as the table of routes has it. Any other path is returned unchanged. */
export const canonicalPath = (path: string): string => (path.startsWith(PREFIX) ? read(path).path : path)

/** The body of a call to a deployment. Its name is the model, unless the body names one. Forms of Azure's clients name it. */
export const withDeployment = (path: string, body: RequestBody): RequestBody => {
  const deployment = path.startsWith(DEPLOYMENTS) ? read(path).deployment : undefined
  if (deployment === undefined || !isTextBody(body)) return body
  // Most clients write the model into the body too; only a body that may have one is parsed.
  const { text } = body
  const value = text.includes('"model"') ? parseObject(text) : {}
  if (!value || (value.model ?? null) !== null) return body
  if (Object.hasOwn(value, 'model')) return { text: JSON.stringify({ ...value, model: deployment }) }
  const start = text.indexOf('{') + 1
  if (start === 0) return body
  const comma = text.slice(start).trimStart().startsWith('}') ? '' : ','
  return { text: `${text.slice(0, start)}"model":${JSON.stringify(deployment)}${comma}${text.slice(start)}` }
}

const read = (path: string): DeploymentPath => {
  const plain = path.endsWith('/') ? path.slice(0, -1) : path
  if (plain.startsWith(DEPLOYMENTS)) {
    const call = CALLS.find((suffix) => plain.endsWith(suffix))
    const name = call && percentDecoded(plain.slice(DEPLOYMENTS.length, plain.length - call.length))
    return name ? { path: `/v1${call}`, deployment: name } : { path }
  }
  const below = plain.slice(PREFIX.length - 1)
  const canonical = below.startsWith('/v1/') ? below : `/v1${below}`
  return 'routes' in findRoute(canonical) ? { path: canonical } : { path }
}
