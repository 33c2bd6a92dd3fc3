/** The admin API of a fleet: its ledger, whatever the tables are, and its keys. */
import assert from 'node:assert/strict'
import { isObject, type JsonObject, list, object, parseObject, text } from '../../src/core/json.ts'
import { post } from '../e2e/support/process.ts'
import { ADMIN, type Gateway, secretOf, until } from './fleet.ts'

/** Rows of a page. */
const PAGE = 200

/** Asks again while the gateway answers that it cannot read the database at present. */
const get = async ({ url }: Pick<Gateway, 'url'>, path: string): Promise<JsonObject> => {
  const headers = { authorization: `Bearer ${ADMIN}`, connection: 'close' }
  let body = ''
  await until(`${path} is answered`, async () => {
    const response = await fetch(`${url}/admin/api/v1${path}`, { headers })
    body = await response.text()
    if (response.status !== 503) assert.equal(response.status, 200, body)
    return response.status === 200
  })
  return parseObject(body) ?? assert.fail(body)
}

/** The attempts that are stored, by the name of the request that the client gave. */
export const storedAttempts = async (gateway: Pick<Gateway, 'url'>): Promise<ReadonlyMap<string, number>> => {
  const found = new Map<string, number>()
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page: JsonObject = await get(
      gateway,
      `/requests?limit=${PAGE}${after && `&after=${encodeURIComponent(after)}`}`,
    )
    for (const row of list(page.data).filter(isObject)) {
      const name = text(row.client_request_id) ?? ''
      found.set(name, (found.get(name) ?? 0) + list(row.attempts).length)
    }
    after = text(page.next)
  }
  return found
}

/** What a budget without parts has spent and reserved, in nano-dollars. */
export const budgetNow = async (
  gateway: Pick<Gateway, 'url'>,
  name: string,
): Promise<{ readonly spent: number; readonly reserved: number }> => {
  const page = await get(gateway, '/budgets')
  const row = list(page.data)
    .filter(isObject)
    .find((budget) => budget.name === name)
  const now = object(row?.now)
  return { spent: Math.round(Number(now?.spent) * 1e9), reserved: Math.round(Number(now?.reserved) * 1e9) }
}

/**
 * Creates a client key at one of the gateways, whichever the balancer chooses, and returns its secret. A write whose end the gateway
 * does not know is tried again: if it has taken place, the name is in use.
 */
export const createKey = async ({ url }: Pick<Gateway, 'url'>, name: string): Promise<string> => {
  const secret = secretOf(name)
  await until(`the key ${name} is created`, async () => {
    const { status, text } = await post(
      `${url}/admin/api/v1/keys`,
      { name, team: 'default', secret },
      { authorization: `Bearer ${ADMIN}`, connection: 'close' },
    )
    if (status !== 503) assert.ok(status === 201 || status === 409, text)
    return status !== 503
  })
  return secret
}
