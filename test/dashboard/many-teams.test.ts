/**
 * The dashboard of a company with fifty teams: an operator's questions, each answered in at most six actions from the first
 * page, with the figures that the seed has counted.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { post } from '../e2e/support/process.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { ADMIN, type Company, onDay, spentByTeam, spentOn, startCompany } from './support/company.ts'
import { appOf } from './support/company-records.ts'
import { BUDGETS, ROUTES, SPENT } from './support/company-teams.ts'
import { companyTraffic, type MadeRequest } from './support/company-traffic.ts'
import { COMPLAINT } from './support/conversations.ts'
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

/** Moves the focus to the search of a page, once the page is there. */
const toSearch = async (hand: Hand) => {
  await hand.page.locator('.filter-text').waitFor()
  await hand.press('/')
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

/** Nano-dollars that a team has spent since the month began. */
const spentInMonth = (requests: readonly MadeRequest[], team: string): number => {
  const month = `${new Date().toISOString().slice(0, 7)}-01`
  return spentOn(requests.filter((one) => one.team === team && one.at >= Date.parse(month)))
}

/** Opens what the palette finds first by a name. `kind`: the word before the name. */
const openNamed = async (hand: Hand, kind: 'Team' | 'Key', name: string) => {
  await hand.press('Control+k')
  await hand.page.locator('.palette-field').waitFor()
  await hand.type(name)
  await hand.page.getByRole('option', { name: `${kind} ${name}`, exact: true, selected: true }).waitFor()
  await hand.press('Enter')
}

const figure = (page: Page, label: RegExp) => page.locator('.figure').filter({ has: page.getByText(label) })

const ANSWERS: readonly Answer[] = [
  [
    'Which conversation is behind the complaint of an end user?',
    async (hand) => {
      await toPage(hand, 'Requests')
      await toSearch(hand)
      await hand.type('customer-0042')
      // One of its requests has kept bodies.
      const marked = hand.page.getByRole('row').filter({ has: hand.page.locator('.kept-mark') })
      await hand.page.waitForURL(/q=customer-0042/)
      while ((await marked.count()) !== 1) await hand.page.waitForTimeout(50)
      await hand.click(marked)
      await hand.click(hand.page.locator('.sheet summary', { hasText: 'Conversation' }))
      await shows(hand.page.locator('.turn[data-role="user"]'), COMPLAINT)
      await shows(hand.page.locator('.turn[data-role="assistant"]'), /14 days/)
    },
  ],
  [
    'Which conversation has what the complaint says?',
    async (hand) => {
      await toPage(hand, 'Requests')
      await toSearch(hand)
      await hand.type('order 4711 was DECLINED')
      // The list has no such text, the kept bodies have it.
      await hand.click(hand.page.getByRole('link', { name: 'Search for it in the kept conversations' }))
      await hand.page.waitForURL(/text=order/)
      const row = hand.page.getByRole('row').filter({ has: hand.page.locator('.kept-mark') })
      await hand.click(row)
      await hand.click(hand.page.locator('.sheet summary', { hasText: 'Conversation' }))
      await shows(hand.page.locator('.turn[data-role="user"]'), COMPLAINT)
    },
  ],
  [
    'Which budgets are spent or near their end?',
    async (hand, { budgets }) => {
      const panel = hand.page.getByRole('region', { name: /^Needs attention/ })
      await panel
        .getByRole('link', { name: /^Budget / })
        .first()
        .waitFor()
      const more = panel.getByRole('button', { name: /more$/ })
      while ((await more.count()) > 0) await hand.click(more.first())
      const full = BUDGETS.filter(({ share }) => share >= 0.8)
      const lines = await panel.getByRole('link', { name: /^Budget / }).allInnerTexts()
      // A budget that ends within a day is listed too.
      const isFull = (line: string) => Number(/: ([\d.]+)%/.exec(line)?.[1]) >= 80
      assert.deepEqual(
        lines
          .filter(isFull)
          .map((line) => /^Budget (.*): /.exec(line)?.[1])
          .toSorted(),
        full.map(({ name }) => name).toSorted(),
      )
      for (const { name, share } of full) {
        const [, shown = ''] =
          lines.map((line) => new RegExp(`^Budget ${name}: ([\\d.]+)%`).exec(line)).find(Boolean) ?? []
        const { amount = 0 } = budgets.find((one) => one.name === name) ?? {}
        // Amounts are whole cents, and shares have one decimal.
        assert.ok(Math.abs(Number(shown) - 100 * share) < (100 * share * 1e7) / amount + 0.1, `${name}: ${shown}`)
      }
    },
  ],
  [
    'Which team spent most yesterday, and on what?',
    async (hand, { requests }) => {
      const [[team = '', nano = 0] = []] = spentByTeam(onDay(requests, YESTERDAY))
      await choose(hand, 'yesterday')
      const teams = hand.page.getByRole('region', { name: 'Teams', exact: true })
      const first = teams.getByRole('listitem').first()
      await first
        .filter({ hasText: team })
        .filter({ hasText: dollars(nano) })
        .waitFor()
      await hand.click(first.getByRole('link'))
      await hand.page.getByRole('heading', { level: 1, name: team }).waitFor()
      await figure(hand.page, /^Cost, /)
        .filter({ hasText: dollars(nano) })
        .waitFor()
    },
  ],
  [
    'Which team’s budget ends first?',
    async (hand, { requests, budgets }) => {
      await toPage(hand, 'Teams')
      await hand.click(hand.page.getByRole('columnheader').getByRole('button', { name: 'Budget ends' }))
      const own = budgets.flatMap(({ amount, appliesTo: { teams, models } }, at) => {
        const name = teams?.length === 1 && models === null ? BUDGETS[at]?.teams?.[0] : undefined
        if (name === undefined) return []
        const rate = spentOn(requests.filter((one) => one.team === name && one.at >= Date.now() - 7 * DAY))
        return [{ name, amount, spent: spentInMonth(requests, name), rate }]
      })
      assert.ok(own.length > 2)
      const ordered = own.toSorted((a, b) => (a.amount - a.spent) / a.rate - (b.amount - b.spent) / b.rate)
      for (const [at, { name, amount, spent }] of ordered.entries()) {
        const row = hand.page.locator(`table tbody tr[data-index="${at}"]`)
        await row.filter({ hasText: `${dollars(spent)} of ${dollars(amount)}` }).waitFor()
        await row.filter({ hasText: /ends about|lasts its period/ }).waitFor()
        assert.equal(await row.getByRole('link').first().textContent(), name)
      }
    },
  ],
  [
    'Which models have no price?',
    async (hand, { requests }) => {
      const attempts = requests.flatMap((one) => one.attempts).filter(({ nano }) => nano === null)
      assert.deepEqual([...new Set(attempts.map(({ target }) => target))], ['house/qwen3-coder'])
      await toPage(hand, 'Config')
      await hand.click(hand.page.getByRole('main').getByRole('link', { name: 'Prices', exact: true }))
      const rows = hand.page.getByRole('table', { name: 'Used without a price' }).locator('tbody tr')
      await rows
        .filter({ hasText: 'house/qwen3-coder' })
        .filter({ hasText: attempts.length.toLocaleString('en-GB') })
        .waitFor()
      assert.equal(await rows.count(), 1)
    },
  ],
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
      const [{ begin = 0, failures = 0, rerouted = 0, lost = 0 } = {}] = outages.filter(
        ({ provider }) => provider === 'groq',
      )
      await toPage(hand, 'Providers')
      await hand.click(hand.page.locator('.provider-name', { hasText: 'groq' }).first())
      await choose(hand, '24 hours')
      await shows(
        hand.page,
        new RegExp(`overloaded, llama-3.3-70b-versatile · ${failures} failed.*${rerouted}.*${lost}`),
      )
      await shows(hand.page, /125 s|2 min 5 s|2:05/)
      await shows(hand.page.locator('.incident-list'), new RegExp(new Date(begin).toISOString().slice(11, 16)))
    },
  ],
  [
    'Which requests met an error with this text?',
    async (hand, { requests }) => {
      await toPage(hand, 'Requests')
      await choose(hand, '24 hours')
      await toSearch(hand)
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
      const served = requests.filter(({ at, route }) => at > Date.now() - HOUR && route === 'trial')
      for (const [at, target] of ROUTES.trial.entries()) {
        const row = hand.page
          .getByRole('row')
          .filter({ hasText: at === 0 ? /90 ?% first/ : /10 ?% first/ })
          .first()
        await row.waitFor()
        const own = served.filter(({ attempts }) =>
          attempts.some((one) => one.target === target && one.outcome === 'ok'),
        )
        const shown = Number(await row.locator('.routes-share .small').textContent())
        // One may have left the hour meanwhile.
        assert.ok(Math.abs(shown - own.length) <= 1, `${target}: ${shown} instead of ${own.length}`)
      }
    },
  ],
]

/** The status of a chat with the key of this name. */
const ask = async ({ gateway, secrets }: Company, key: string, user?: string): Promise<number> => {
  const body = { model: 'fast', messages: [{ role: 'user', content: 'Is the shop open?' }], max_tokens: 20, user }
  const { status } = await post(`${gateway.base}/chat/completions`, body, {
    authorization: `Bearer ${secrets.get(key)}`,
  })
  return status
}

/** They change something, so they are last and in this order. */
const CHANGES: readonly Answer[] = [
  [
    'Block a team.',
    async (hand, company) => {
      const team = 'documentation'
      await openNamed(hand, 'Team', team)
      const own = company.requests.filter((one) => one.team === team)
      await figure(hand.page, /^Cost, /)
        .filter({ hasText: dollars(spentOn(own)) })
        .waitFor()
      await figure(hand.page, /^Requests$/)
        .filter({ hasText: own.length.toLocaleString('en-GB') })
        .waitFor()
      assert.equal(await ask(company, `${team}-prod`), 200)
      await hand.click(button(hand.page, 'Block'))
      await button(hand.page, 'Unblock').waitFor()
      assert.equal(await ask(company, `${team}-prod`), 403)
      await hand.click(button(hand.page, 'Undo'))
      await button(hand.page, 'Block').waitFor()
      assert.equal(await ask(company, `${team}-ci`), 200)
    },
  ],
  [
    'Block an end user.',
    async (hand, company) => {
      const [user, key] = ['customer-0005', 'customer-support-amer-prod']
      await toPage(hand, 'Teams')
      await hand.click(button(hand.page, 'End users'))
      await toSearch(hand)
      await hand.type(user)
      const row = hand.page.getByRole('row').filter({ has: hand.page.getByRole('link', { name: user }) })
      const own = company.requests.filter(({ endUser }) => endUser === user)
      await row
        .filter({ hasText: dollars(spentOn(own)) })
        .filter({ hasText: own.length.toLocaleString('en-GB') })
        .waitFor()
      await hand.click(row.getByRole('button', { name: `Block: ${user}` }))
      await row.getByText('blocked').waitFor()
      assert.equal(await ask(company, key, user), 403)
      await hand.click(button(hand.page, 'Undo'))
      await row.getByText('active').waitFor()
      assert.equal(await ask(company, key, user), 200)
    },
  ],
  [
    'Raise a budget.',
    async (hand, company) => {
      const name = `${SPENT}-month`
      assert.equal(await ask(company, SPENT), 402)
      await hand.click(hand.page.getByRole('link', { name: new RegExp(`^Budget ${name}: 1\\d\\d`) }))
      await hand.click(button(hand.page.locator('dialog'), /^Edit…/))
      await hand.triple(hand.page.getByLabel('Amount in dollars'))
      await hand.type('900.00')
      await shows(hand.page, /is left/)
      await hand.press('Enter')
      await shows(hand.page, `Budget ${name} saved`)
      assert.equal(await ask(company, SPENT), 200)
    },
  ],
  [
    'Rotate a key.',
    async (hand, company) => {
      const key = 'legal-contracts-prod'
      assert.equal(await ask(company, key), 200)
      await openNamed(hand, 'Key', key)
      await hand.click(button(hand.page, 'Rotate…'))
      const dialog = hand.page.getByRole('dialog', { name: `Rotate ${key}` })
      await hand.choose(dialog.getByLabel('The old secret ends'))
      await hand.click(dialog.getByRole('button', { name: 'Rotate', exact: true }))
      await hand.page.getByRole('dialog', { name: `The secret of ${key}` }).waitFor()
      assert.equal(await ask(company, key), 401)
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

  const answered = ([question, answer]: Answer) =>
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
  for (const one of ANSWERS) void answered(one)

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

  for (const one of CHANGES) void answered(one)
})
