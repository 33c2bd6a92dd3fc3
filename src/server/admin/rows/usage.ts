import { good } from '../../../core/failure.ts'
import { END_USERS_PARAMETERS, EXPORT_PARAMETERS, USAGE_PARAMETERS } from '../../../usage/reading/parameters.ts'
import { END_USER_REPORT, USAGE_REPORT } from '../../answers/usage.ts'
import { runFor } from '../control.ts'
import { id } from '../fields.ts'
import { keptExport } from '../marked-bodies.ts'
import { row } from '../row.ts'
import { scoped, shown, summed } from '../usage-query.ts'
import { writeExport } from '../write-export.ts'

const SUMS = {
  requests: 812,
  failed: 3,
  refused: 2,
  attempts: 830,
  input: 91_000,
  output: 12_000,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost: '1.840000000',
  saved: '0.000000000',
  lost: '0.000000000',
  estimated: 3,
  unpriced: 0,
  first_content_ms: 310,
  total_ms: 1_200,
}
const REPORT = {
  object: 'list',
  data: [{ start: '2026-11-22', team: 'team_kdvbwqhzmrtc', ...SUMS }],
  has_more: false,
  next: null,
  from: '2026-11-22T00:00:00.000Z',
  to: '2026-11-23T00:00:00.000Z',
  searched_until: null,
  total: SUMS,
  names: { team_kdvbwqhzmrtc: 'search' },
}

export const usageRows = [
  row({
    method: 'GET',
    path: '/usage',
    summary: 'Sum usage and cost',
    about:
      'By default of the last 30 days, by day. Sums of days in the zone of `usage.timezone` have all dimensions, those of hours provider, model, style, route and client; they are kept when requests are deleted. Other hours, days of another zone, and parts of a day are added up from requests for a second at a time: until then `data` is empty, `total` is of what is after `searched_until`, and `next` continues.',
    role: 'viewer',
    scope: 'team',
    query: USAGE_PARAMETERS,
    answer: USAGE_REPORT,
    example: { query: { by: 'team', bucket: 'day' }, answer: REPORT },
    async handle(deps, { query, teams }) {
      const whole = scoped(deps, summed(query, deps.gateway.config()), 'usage', teams)
      return whole.ok ? shown(await deps.usage.usage(whole.value)) : whole
    },
  }),
  row({
    method: 'GET',
    path: '/usage/end-users',
    summary: 'Sum usage and cost by end user, the most expensive first',
    about:
      'Of the end users that requests name, if `usage.endUser` records them. The newest 100,000 requests of the range are read, by default those of the last 24 hours; `is_complete` says whether these are all.',
    role: 'viewer',
    scope: 'team',
    query: END_USERS_PARAMETERS,
    answer: END_USER_REPORT,
    example: {
      query: { limit: '10' },
      answer: {
        object: 'list',
        data: [
          {
            end_user: 'u-4711',
            requests: 31,
            failed: 0,
            input: 9_100,
            output: 1_200,
            cost: '0.184000000',
            last_at: '2026-11-23T09:58:12.345Z',
          },
        ],
        has_more: false,
        next: null,
        from: '2026-11-22T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
        is_complete: true,
      },
    },
    async handle(deps, { query, teams }) {
      const whole = scoped(deps, query, 'requests', teams)
      return whole.ok ? shown(await deps.usage.endUsers(whole.value)) : whole
    },
  }),
  row({
    method: 'GET',
    path: '/usage/export',
    summary: 'Export requests, attempts or days as CSV or JSON lines',
    about:
      'Streamed, oldest first, with the names of teams and keys in the last two columns, compressed if the client accepts gzip. Cells of a CSV that a spreadsheet would run begin with an apostrophe.',
    role: 'viewer',
    scope: 'team',
    query: EXPORT_PARAMETERS,
    answer: { media: 'text/csv', about: 'CSV with a head, or JSON lines (application/x-ndjson).' },
    example: { query: { format: 'csv', level: 'request' } },
    async handle(deps, { query, teams, request: { headers } }) {
      // Days are sums; the other levels are lists.
      const asked = query.level === 'day' ? summed(query, deps.gateway.config()) : query
      const whole = scoped(deps, asked, 'export', teams)
      if (!whole.ok) return whole
      const source = whole.value.bodies ? keptExport(deps, whole.value) : deps.usage.export(whole.value)
      const first = await source.read()
      if (!first.ok) return first
      const gzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers('accept-encoding') ?? '')
      const type = query.format === 'csv' ? 'text/csv; charset=utf-8' : 'application/x-ndjson'
      return good({
        stream(reply) {
          reply.writeHead(200, {
            'content-type': type,
            'content-disposition': `attachment; filename="usage.${query.format}"`,
            'cache-control': 'no-store',
            vary: 'accept-encoding',
            ...(gzip && { 'content-encoding': 'gzip' }),
          })
          return writeExport(first.value, source, reply, gzip)
        },
      })
    },
  }),
  row({
    method: 'GET',
    path: '/keys/{id}/usage',
    summary: 'Sum usage and cost of a client key',
    about: 'With the parameters of /usage.',
    role: 'viewer',
    scope: 'team',
    params: id,
    query: USAGE_PARAMETERS,
    answer: USAGE_REPORT,
    example: { params: { id: 'key_kdvbwqhzmrtc' }, query: { by: 'model' }, answer: REPORT },
    async handle(deps, call) {
      const { params, query, teams } = call
      const whole = scoped(deps, summed(query, deps.gateway.config()), 'usage', teams)
      if (!whole.ok) return whole
      const key = teams === null ? null : await runFor(deps.control, call, { do: 'get', kind: 'key', id: params.id })
      if (key?.ok === false) return key
      return shown(await deps.usage.usage({ ...whole.value, filter: { ...whole.value.filter, key: [params.id] } }))
    },
  }),
]
