/**
 * The dashboard of a company with fifty teams: an operator's questions, each answered in at most six actions from the first
 * page, with the figures that the seed has counted.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { ADMIN, type Company, onDay, spentByTeam, spentOn, startCompany } from './support/company.ts'
import { appOf } from './support/company-records.ts'
import { BUDGETS, ROUTES } from './support/company-teams.ts'
import { companyTraffic, type MadeRequest } from './support/company-traffic.ts'
import { withDashboard } from './support/dashboard.ts'
import { button, costOf, dollars, type Hand, handOf, MOST, openRequest, shows, toPage } from './support/hand.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)
const YESTERDAY = dayOf(Date.now() - DAY)

/** Chooses a range of the calendar, or of a length. */
const choose = async (hand: Hand, range: string) => {
  await hand.click(hand.page.getByRole('button', { name: /^Time range/ }))
  await hand.click(hand.page.locator('.range-lengths').getByRole('button', { name: range, exact: true }))
}

/** Waits until the list of requests has this many. */
const listed = async (page: Page, count: number) =>
  void (await page.locator(`table[aria-rowcount="${count + 1}"]`).waitFor())

const lastDay = (requests: readonly MadeRequest[]) => requests.filter(({ at }) => at > Date.now() - DAY)

type Answer = readonly [question: string, answer: (hand: Hand, company: Company) => Promise<unknown>]

/** A request that was refused with this status, whose ID its client has. */
const refusal = (status: number, reason: RegExp): Answer => [
  `Why was a request refused with ${status}?`,
  async (hand, { requests }) => {
    const { id = '' } = requests.findLast((one) => one.status === status) ?? {}
    await shows(await openRequest(hand, id), reason)
  },
]

const ANSWERS: readonly Answer[] = [
  [
    'Which team spent most yesterday?',
    async (hand, { requests }) => {
      await toPage(hand, 'Usage')
      await hand.click(button(hand.page, 'Team'))
      await choose(hand, 'yesterday')
      const [first = ['', 0] as const, second = ['', 0] as const] = spentByTeam(onDay(requests, YESTERDAY))
      await costOf(hand, ...first)
      await costOf(hand, ...second)
      assert.equal(await hand.page.locator('.usage-table tbody tr th').first().textContent(), first[0])
    },
  ],
  [
    'What did it cost yesterday in all?',
    async (hand, { requests }) => {
      await toPage(hand, 'Usage')
      await choose(hand, 'yesterday')
      await shows(hand.page, dollars(spentOn(onDay(requests, YESTERDAY))))
    },
  ],
  [
    'What did each provider cost yesterday?',
    async (hand, { requests }) => {
      await toPage(hand, 'Usage')
      await hand.click(button(hand.page, 'Provider'))
      await choose(hand, 'yesterday')
      const attempts = onDay(requests, YESTERDAY).flatMap((one) => one.attempts)
      for (const provider of ['openai', 'anthropic', 'groq']) {
        const own = attempts.filter(({ target }) => target.startsWith(provider))
        await costOf(
          hand,
          provider,
          own.reduce((sum, { nano }) => sum + (nano ?? 0), 0),
        )
      }
    },
  ],
  [
    'When was groq down, why, and whom did it concern?',
    async (hand, { outages }) => {
      const [{ failures = 0, rerouted = 0, lost = 0 } = {}] = outages.filter(({ provider }) => provider === 'groq')
      await toPage(hand, 'Providers')
      await hand.click(hand.page.locator('.provider-name', { hasText: 'groq' }).first())
      await choose(hand, '24 hours')
      await shows(
        hand.page,
        new RegExp(`overloaded, llama-3.3-70b-versatile · ${failures} failed.*${rerouted}.*${lost}`),
      )
      await shows(hand.page, /125 s|2 min 5 s|2:05/)
    },
  ],
  [
    'Which requests met an error with this text?',
    async (hand, { requests }) => {
      await toPage(hand, 'Requests')
      await choose(hand, '24 hours')
      await hand.press('/')
      await hand.type('eu-2')
      const met = lastDay(requests).filter(({ attempts }) => attempts.some(({ message }) => message?.includes('eu-2')))
      assert.ok(met.length > 5)
      await listed(hand.page, met.length)
    },
  ],
  [
    'Why was this request slow?',
    async (hand, { requests }) => {
      const slow = requests.find(({ attempts }) => attempts.some(({ kind }) => kind === 'timeout'))
      const sheet = await openRequest(hand, slow?.id ?? '')
      await shows(sheet, /No first byte within 30000 ms/)
      await shows(sheet, /30\.0? ?s|30 s/)
    },
  ],
  refusal(401, /The API key is/),
  refusal(402, /is spent/),
  refusal(404, /The model "gpt-5o" is not known/),
  refusal(429, /its limit of requests per minute/),
  [
    'What does each tag cost?',
    async (hand, { requests }) => {
      await toPage(hand, 'Usage')
      await hand.click(button(hand.page, 'Tag'))
      await choose(hand, 'yesterday')
      const byTag = Map.groupBy(onDay(requests, YESTERDAY), ({ team }) => appOf(team ?? ''))
      for (const tag of ['data', 'customer', 'checkout']) await costOf(hand, tag, spentOn(byTag.get(tag) ?? []))
    },
  ],
  [
    'What is exported for the accounts of yesterday?',
    async (hand, { requests }) => {
      await toPage(hand, 'Usage')
      await choose(hand, 'yesterday')
      await shows(hand.page, dollars(spentOn(onDay(requests, YESTERDAY))))
      await hand.click(button(hand.page, 'Export'))
      const loading = hand.page.waitForEvent('download')
      await hand.click(hand.page.getByRole('link', { name: /CSV/ }))
      const text = await readFile(await (await loading).path(), 'utf8')
      const [head = '', ...lines] = text.trim().split('\n')
      const cost = head.split(',').indexOf('cost')
      const nano = lines.reduce((sum, line) => sum + Math.round(Number(line.split(',')[cost]) * 1e9), 0)
      assert.equal(nano, spentOn(onDay(requests, YESTERDAY)))
    },
  ],
  [
    'What if groq fails?',
    async (hand) => {
      await toPage(hand, 'Routes')
      await hand.click(hand.page.getByRole('checkbox', { name: 'groq' }))
      await shows(hand.page.locator('.routes-effect'), /routes still answer/)
    },
  ],
  [
    'What does a route really do with its traffic?',
    async (hand, { requests }) => {
      await toPage(hand, 'Routes')
      const [first] = ROUTES.trial
      const row = hand.page.getByRole('row').filter({ hasText: /90 ?% first/ })
      await row.first().waitFor()
      const answered = requests.filter(
        ({ at, route, attempts }) =>
          at > Date.now() - HOUR &&
          route === 'trial' &&
          attempts.some((one) => one.target === first && one.outcome === 'ok'),
      ).length
      const shown = Number(await row.first().locator('.routes-share .small').textContent())
      // One may have left the hour meanwhile.
      assert.ok(Math.abs(shown - answered) <= 1, `${shown} instead of ${answered}`)
      await shows(hand.page, /10 ?% first/)
    },
  ],
]

test('company: the same time and seed give the same requests', () => {
  const [one, other, third] = [companyTraffic(1e12, 500), companyTraffic(1e12, 500), companyTraffic(1e12, 500, 2)]
  assert.deepEqual(one, other)
  assert.notDeepEqual(one, third)
})

describe('many teams', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let company: Company
  before(async () => {
    ;[browser, company] = await Promise.all([startBrowser(), startCompany()])
  })
  after(async () => {
    await Promise.all([browser?.close(), company?.close()])
  })

  for (const [question, answer] of ANSWERS)
    test(question, (t) =>
      withDashboard(browser, { url: company.gateway.url, token: ADMIN }, async ({ page, open, shot }) => {
        await open()
        await page.locator('.overview-provider').first().waitFor()
        const { hand, count } = handOf(page)
        await answer(hand, company)
        await shot(`company-${question.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}`)
        t.diagnostic(`${count()} actions`)
        assert.ok(count() <= MOST, `${count()} actions`)
      }),
    )

  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  const read = async (path: string): Promise<any> => {
    const answer = await fetch(`${company.gateway.url}/admin/api/v1${path}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    assert.ok(answer.ok, await answer.clone().text())
    return answer.json()
  }

  test('the API has the spend of each team that the seed counted', async () => {
    const { data } = await read(`/usage?by=team&from=${YESTERDAY}&to=${dayOf(Date.now())}&tz=UTC&limit=200`)
    const spent = spentByTeam(onDay(company.requests, YESTERDAY)).filter(([, nano]) => nano > 0)
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
