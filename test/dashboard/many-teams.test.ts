/** The dashboard of a company with fifty teams: its figures are those that the seed has counted. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { ADMIN, type Company, onDay, spentByTeam, spentOn, startCompany } from './support/company.ts'
import { BUDGETS } from './support/company-teams.ts'
import { companyTraffic } from './support/company-traffic.ts'

const DAY = 86_400_000
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

test('company: the same time and seed give the same requests', () => {
  const [one, other, third] = [companyTraffic(1e12, 500), companyTraffic(1e12, 500), companyTraffic(1e12, 500, 2)]
  assert.deepEqual(one, other)
  assert.notDeepEqual(one, third)
})

describe('many teams', { concurrency: false }, () => {
  let company: Company
  const yesterday = dayOf(Date.now() - DAY)
  before(async () => {
    company = await startCompany()
  })
  after(() => company?.close())

  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  const read = async (path: string): Promise<any> => {
    const answer = await fetch(`${company.gateway.url}/admin/api/v1${path}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    assert.ok(answer.ok, await answer.clone().text())
    return answer.json()
  }

  test('the API has the spend of each team that the seed counted', async () => {
    const { data } = await read(`/usage?by=team&from=${yesterday}&to=${dayOf(Date.now())}&tz=UTC&limit=200`)
    const spent = spentByTeam(onDay(company.requests, yesterday)).filter(([, nano]) => nano > 0)
    const counted = new Map(spent.map(([team, nano]) => [company.ids.teams.get(team), nano]))
    for (const { team, cost } of data) {
      assert.equal(Math.round(Number(cost) * 1e9), counted.get(team) ?? 0, team)
      counted.delete(team)
    }
    assert.deepEqual([...counted], [])
    assert.ok(spentOn(company.requests) > 0)
  })

  test('the API has the outages, and budgets as full as they were planned', async () => {
    const { data } = await read(`/incidents?from=${dayOf(Date.now() - 3 * DAY)}`)
    assert.deepEqual(
      data.map(({ failures, rerouted, lost }: Company['outages'][number]) => [failures, rerouted, lost]),
      company.outages.map(({ failures, rerouted, lost }) => [failures, rerouted, lost]),
    )
    const { data: budgets } = await read('/budgets?limit=50')
    assert.equal(budgets.length, company.budgets.length)
    const shares = new Map(BUDGETS.map(({ name, share }) => [name, share]))
    const whole = budgets.filter(({ per }: { per: string }) => per === 'all')
    assert.ok(whole.length > 3)
    for (const { name, amount, now } of whole) {
      const share = Number(now.spent) / Number(amount)
      // Amounts are whole cents.
      assert.ok(Math.abs(share - (shares.get(name) ?? 0)) < 0.01, `${name}: ${share}`)
    }
  })
})
