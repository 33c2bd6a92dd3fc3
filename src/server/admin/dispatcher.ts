/** Serves the rows of the table: path, method, credentials, role, parameters and body are checked here, once for all rows. */

import { hash } from 'node:crypto'
import { z } from 'zod'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { nearest } from '../../core/nearest.ts'
import { percentDecoded } from '../../core/percent-decoded.ts'
import { ADMIN_BASE, type AdminApi, type AdminRequest } from '../admin-request.ts'
import { typeProblem } from '../body.ts'
import { type AdminActor, hasRole, teamsOf } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import type { AdminRow, Answered } from './row.ts'
import { readBy, readQuery } from './validation.ts'

const NO_STORE = { 'cache-control': 'no-store' } as const
const NO_QUERY = z.strictObject({})
const FORCE = /^(?:(.*)&)?force=true(?:&(.*))?$/

type Match = { readonly rows: readonly AdminRow[]; readonly segments: readonly string[] }

/** Creates the admin API from its rows. */
export const adminApi = (rows: readonly AdminRow[], deps: AdminDeps): AdminApi => {
  const find = router(rows)
  return {
    async serve(request, reply) {
      const served = await serveRow(find, deps, request)
      if (!served.ok) {
        const { failure, headers } = served
        return request.refuse(failure, { ...NO_STORE, ...headers })
      }
      await send(served.answered, served.status, request, reply)
    },
  }
}

type Served =
  | { readonly ok: true; readonly answered: Answered; readonly status: number }
  | { readonly ok: false; readonly failure: Failure; readonly headers?: Readonly<Record<string, string>> }

const serveRow = async (
  find: (path: string) => Match | Failure,
  deps: AdminDeps,
  request: AdminRequest,
): Promise<Served> => {
  const { method } = request
  const match = find(request.path)
  if ('kind' in match) return bad(match)
  const allow = allowed(match.rows)
  if (method === 'OPTIONS') return { ok: true, answered: { body: undefined, headers: { allow } }, status: 204 }
  const found = match.rows.find((row) => row.method === (method === 'HEAD' ? 'GET' : method))
  if (!found) {
    const failure = fail('method_not_allowed', `This path takes ${allow}, not ${method}.`)
    return { ok: false, failure, headers: { allow } }
  }
  const actor = await permitted(found, deps, request)
  if (!actor.ok) {
    const challenge = actor.failure.kind === 'unauthenticated' && { 'www-authenticate': 'Bearer' }
    return { ok: false, failure: actor.failure, headers: { ...challenge } }
  }
  const call = await readCall(found, match.segments, request)
  if (!call.ok) return call
  const { role } = found
  const teams = role !== null && actor.value ? teamsOf(actor.value, role) : null
  const handled = await found.handle(deps, { ...call.value, actor: actor.value, teams, request })
  return handled.ok ? { ok: true, answered: handled.value, status: found.status ?? 200 } : handled
}

/** The actor of a request if it may use the row; null: the row needs none, and the request has no valid credentials. */
const permitted = async (
  { role, scope }: AdminRow,
  deps: AdminDeps,
  request: AdminRequest,
): Promise<Outcome<AdminActor | null>> => {
  if (role === null) return good(null)
  const found = await deps.authentication.authenticate(request)
  if (!found.ok) return found
  const { actor } = found.value
  if (hasRole(actor, role, scope)) return good(actor)
  const where = scope === 'all' ? ' for all teams' : ''
  return bad(fail('forbidden', `This needs the role ${role}${where}, which these credentials do not have.`))
}

type ReadCall = Pick<Parameters<AdminRow['handle']>[1], 'params' | 'query' | 'body' | 'revision' | 'idempotencyKey'>

/** Reads and checks the parameters, the conditions and the body. */
const readCall = async (
  row: AdminRow,
  segments: readonly string[],
  request: AdminRequest,
): Promise<Outcome<ReadCall>> => {
  const params = readBy(row.params ?? NO_QUERY, paramsOf(row.path, segments), 'path')
  if (!params.ok) return bad(fail('not_found', 'The path has a part that is no valid ID.'))
  const condition = conditionOf(row, request)
  if (!condition.ok) return condition
  const { revision, query: text } = condition.value
  const query = readQuery(row.query ?? NO_QUERY, text)
  if (!query.ok) return query
  const idempotencyKey = row.method === 'POST' ? request.headers('idempotency-key') : undefined
  if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey))
    return bad(fail('invalid_value', 'Idempotency-Key must have 1 to 255 visible ASCII characters without spaces.'))
  const body = await readBody(row, request)
  if (!body.ok) return body
  return good({
    params: params.value,
    query: query.value,
    body: body.value,
    revision,
    idempotencyKey: idempotencyKey ?? null,
  })
}

const readBody = async ({ body: schema, method, role }: AdminRow, request: AdminRequest): Promise<Outcome<unknown>> => {
  if (method === 'GET') return good(undefined)
  // A row without a role checks the credentials in its handler.
  const text = await request.readBody(role === null ? 'unknown' : 'actor')
  if (!text.ok || schema === 'text') return text
  const unfit = text.value === '' ? null : typeProblem(request.headers, 'json')
  if (unfit) return bad(unfit)
  if (schema === 'json') return text
  if (schema === undefined)
    return text.value === '' || text.value.trim() === '{}'
      ? good(undefined)
      : bad(fail('invalid_value', 'This request takes no body. Send none.'))
  let value: unknown
  try {
    // An empty body is an object without members; the schema reports the required ones.
    value = text.value === '' ? {} : JSON.parse(text.value)
  } catch {
    return bad(fail('invalid_json', 'The body is not valid JSON.'))
  }
  return readBy(schema, value, 'body')
}

/** The revision that a write requires, and the query without `force`. */
const conditionOf = (
  { conditional }: AdminRow,
  { query, headers }: AdminRequest,
): Outcome<{ readonly revision: number | null; readonly query: string }> => {
  if (!conditional) return good({ revision: null, query })
  const forced = FORCE.exec(query)
  const rest = forced ? [forced[1], forced[2]].filter(Boolean).join('&') : query
  const tag = headers('if-match')?.trim()
  if (tag === undefined)
    return forced
      ? good({ revision: null, query: rest })
      : bad(
          fail(
            'precondition_required',
            'Send the ETag of the object that you read in the header If-Match, so that no change of another client is lost. `?force=true` writes without it.',
          ),
        )
  const [, digits] = /^"([0-9]{1,15})"$/.exec(tag) ?? []
  if (digits === undefined && tag !== '*')
    return bad(
      fail(
        'precondition_failed',
        'If-Match must be an ETag of this object, a number in quotation marks such as "3", or *. Read the object again.',
      ),
    )
  return good({ revision: digits === undefined ? null : Number(digits), query: rest })
}

const send = async (
  answered: Answered,
  status: number,
  request: AdminRequest,
  reply: ResponseWriter,
): Promise<void> => {
  if ('stream' in answered) return await answered.stream(reply)
  const { body, headers } = answered
  if (body === undefined) {
    reply.writeHead(answered.status ?? (status === 200 ? 204 : status), { ...NO_STORE, ...headers })
    return reply.end()
  }
  const text = JSON.stringify(body)
  const tag = tagOf(body, text)
  const common = { ...NO_STORE, ...(tag !== null && { etag: tag.etag }), ...headers }
  if (tag?.isContent && isKnown(request, tag.etag)) {
    reply.writeHead(304, common)
    return reply.end()
  }
  reply.writeHead(answered.status ?? status, { 'content-type': 'application/json', ...common })
  reply.end(text)
}

/**
 * The ETag of an answer; null: none. That of an object is its revision, for `If-Match`, although other members such as the
 * figures of a budget may differ; that of a list is its content.
 */
const tagOf = (body: unknown, text: string): { readonly etag: string; readonly isContent: boolean } | null => {
  if (typeof body !== 'object' || body === null) return null
  if ('rev' in body && typeof body.rev === 'number') return { etag: `"${body.rev}"`, isContent: false }
  const isList = 'object' in body && body.object === 'list'
  return isList ? { etag: `"${hash('sha1', text, 'base64url')}"`, isContent: true } : null
}

/** Whether the client has the list already. */
const isKnown = ({ method, headers }: AdminRequest, etag: string): boolean =>
  (method === 'GET' || method === 'HEAD') &&
  (headers('if-none-match') ?? '').split(',').some((one) => one.trim().replace(/^W\//, '') === etag)

const segmentsOf = (path: string): string[] => path.split('/').slice(1)
const PARAMETER = /^\{([a-z]+)\}$/

/** Finds the rows of a path. A fixed segment takes precedence over a parameter. */
const router = (rows: readonly AdminRow[]) => {
  const paths = [...new Set(rows.map(({ path }) => path))]
    .map((path) => ({ segments: segmentsOf(path), rows: rows.filter((row) => row.path === path), path }))
    .toSorted((a, b) => a.path.split('{').length - b.path.split('{').length)
  return (path: string): Match | Failure => {
    const below = path.slice(ADMIN_BASE.length).replace(/\/$/, '')
    const encoded = segmentsOf(below)
    const segments: string[] = []
    for (const part of encoded) {
      const text = percentDecoded(part)
      if (text === undefined)
        return fail('invalid_request', 'The path has a % that is not followed by two hexadecimal digits of UTF-8.')
      segments.push(text)
    }
    const found = paths.find(
      (one) =>
        one.segments.length === segments.length &&
        one.segments.every((part, at) => PARAMETER.test(part) || part === segments[at]),
    )
    if (found) return { rows: found.rows, segments }
    const [near] = nearest(
      below,
      paths.map((one) => one.path),
    )
    const hint =
      near === undefined ? `${ADMIN_BASE}/openapi.json lists the paths.` : `Did you mean ${ADMIN_BASE}${near}?`
    return fail('unknown_url', `This path of the admin API does not exist. ${hint}`)
  }
}

const paramsOf = (path: string, segments: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    segmentsOf(path).flatMap((part, at) => {
      const [, name] = PARAMETER.exec(part) ?? []
      return name === undefined ? [] : [[name, segments[at] ?? '']]
    }),
  )

const allowed = (rows: readonly AdminRow[]): string =>
  [...rows.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ')
