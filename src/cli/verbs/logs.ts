/** `headgate logs`: one line for each request, from the ledger or as they end. */
import { setTimeout as pause } from 'node:timers/promises'
import { isObject, type JsonObject, list, number, object, readJson, text } from '../../core/json.ts'
import { idOf, isRecordId, queryOf, type RecordStore, throughGateway } from '../accounts/record-store.ts'
import { durationMs, timeOf } from '../arguments.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { bodyOf, errorOf, type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { requestLine } from '../request-lines.ts'

type RequestLogOptions = {
  readonly follow?: true
  readonly team?: string
  readonly key?: string
  readonly model?: string
  readonly endUser?: string
  readonly text?: string
  readonly status?: string
  readonly slow?: string
  readonly since: string
  readonly limit: string
}

const slowMs = (value: string | undefined): number | undefined => {
  const ms = value === undefined ? undefined : durationMs(value)
  if (value !== undefined && ms === undefined) throw new CliError(EXIT.usage, '--slow needs a duration such as 5s.')
  return ms
}

const print = (request: JsonObject, cli: Cli): void =>
  cli.print(cli.options.json ? JSON.stringify(request) : requestLine(request, cli.paint))

type EventText = { readonly event: string; readonly data: string }

/** The events of a stream as text. */
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<EventText & { readonly id: string | null }> {
  let rest = ''
  let [event, id]: [string, string | null] = ['', null]
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('event: ')) event = line.slice(7)
      if (line.startsWith('id: ')) id = line.slice(4)
      if (line.startsWith('data: ')) yield { event, data: line.slice(6), id }
      if (line === '') [event, id] = ['', null]
    }
  }
}

/** `key`: its ID. */
type FollowFilter = {
  readonly team: string | undefined
  readonly key: string | undefined
  readonly model: string | undefined
  readonly statuses: readonly string[]
  readonly slow: number | undefined
}

const matches = (request: JsonObject, { key, model, statuses, slow }: FollowFilter): boolean => {
  const code = String(number(request.status) ?? '')
  const isStatus = statuses.some((status) => code === status || (status.endsWith('xx') && code[0] === status[0]))
  return (
    (statuses.length === 0 || isStatus) &&
    (key === undefined || object(request.key)?.id === key) &&
    (model === undefined || request.asked === model || request.model === model) &&
    (slow === undefined || (number(request.total_ms) ?? 0) >= slow)
  )
}

/** Revoked keys and those of `auth.keys` are found by their ID only. */
const keyOf = async (records: RecordStore, key: string): Promise<string> =>
  isRecordId(key) || STATIC_KEY.test(key) ? key : await idOf(records, 'key', key)

const STATIC_KEY = /^[0-9a-f]{4,16}$/

/** `4xx,5xx` as a list. */
const statusesOf = (text: string | undefined): readonly string[] =>
  text === undefined ? [] : text.split(',').map((one) => one.trim())

/** ms until the stream is opened again after it ended. */
const AGAIN = 1_000

/** Events that are recognized when they are repeated. */
const SEEN = 500

const follow = async (cli: Cli, gateway: GatewayClient, filter: FollowFilter): Promise<void> => {
  let last: string | null = null
  // After a reconnect some events are sent again.
  let seen: readonly string[] = []
  for (;;) {
    const response = await gateway.send(`/admin/api/v1/live${queryOf({ topics: 'requests', team: filter.team })}`, {
      headers: {
        accept: 'text/event-stream',
        ...(gateway.token && { authorization: `Bearer ${gateway.token}` }),
        ...(last !== null && { 'last-event-id': last }),
      },
      timeout: 2_147_483_647,
    })
    if (!response.ok || !response.body) throw errorOf(response, await bodyOf(response))
    try {
      for await (const { event, data, id } of eventsOf(response.body)) {
        if (id !== null && seen.includes(id)) continue
        last = id ?? last
        if (id !== null) seen = [id, ...seen].slice(0, SEEN)
        if (event === 'gap') cli.note('Some requests are missing here: the connection was too slow.')
        const request = event === 'request' ? readJson(data) : undefined
        if (isObject(request) && matches(request, filter)) print(request, cli)
      }
    } catch (error) {
      cli.note(`The stream ended: ${error instanceof Error ? error.message : 'unknown error'}.`)
    }
    await pause(AGAIN)
  }
}

export const define: DefineVerb = (command, cli) => {
  command
    .option('-f, --follow', 'print requests as they end, until interrupted')
    .option('--team <team>', 'only requests of this team: name or ID')
    .option('--key <key>', 'only requests of this client key: name or ID')
    .option('--model <model>', 'only requests for this model or route, or answered by this model')
    .option('--end-user <user>', 'only requests of this end user, without -f')
    .option('--text <text>', 'only requests with this text in an error, model, trail or ID, without -f')
    .option('--status <code>', 'only this status, such as 404 or 5xx; several with commas')
    .option('--slow <duration>', 'only requests that took at least this long, such as 5s')
    .option('--since <time>', 'beginning, without -f: 1h, yesterday or 2026-11-23', '1h')
    .option('--limit <count>', 'at most this many, without -f', '50')
    .addHelpText(
      'after',
      '\nExample: headgate logs -f --status 5xx\nExample: headgate logs --key search-prod --text "rate limit"',
    )
    .action(async (options: RequestLogOptions) => {
      const { model, endUser, text: q } = options
      if (options.follow && (endUser !== undefined || q !== undefined))
        throw new CliError(EXIT.usage, `${q === undefined ? '--end-user' : '--text'} does not work with --follow.`)
      const slow = slowMs(options.slow)
      const gateway = await gatewayOf(cli())
      const records = throughGateway(gateway)
      const team = options.team === undefined ? undefined : await idOf(records, 'team', options.team)
      const key = options.key === undefined ? undefined : await keyOf(records, options.key)
      const statuses = statusesOf(options.status)
      if (options.follow) return await follow(cli(), gateway, { team, key, model, statuses, slow })
      const query = {
        from: timeOf('--since', options.since, -1),
        limit: options.limit,
        ...{ team, key, any_model: model, end_user: endUser, q },
        status: statuses,
        min_ms: slow,
      }
      const { body } = await gateway.call(`/admin/api/v1/requests${queryOf(query)}`)
      const rows = (isObject(body) ? list(body.data) : []).filter(isObject)
      for (const request of rows.toReversed()) print(request, cli())
      if (rows.length === 0) cli().note('No request matches.')
      if (isObject(body) && text(body.next)) cli().note('There are more; use --limit or --since.')
    })
}
